// Lists of segments of ranks that exchange rows: what holds for one member holds for all.

#include <random>

#include "runtime/engine/rank_plan.hpp"
#include "runtime/schedule/segment_list.hpp"
#include "runtime/schedule/simulator/segment_simulation.hpp"
#include "runtime/schedule/validate.hpp"
#include "runtime/schedule/wiring.hpp"
#include "tests/runtime/schedule/random_costs.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

/// Runs the lists of several copies of a pipeline without times. A segment runs when its rank has run those before it, its inputs are there
/// and its output has room, within its copy; and all copies have posted the exchange that it awaits. It knows nothing of the simulator.
class Members {
 public:
  Members(std::vector<Schedule> copies, const std::vector<StageShape>& shapes, const std::vector<int>& depths)
      : copies_(std::move(copies)), depths_(depths), wiring_(copies_.front()) {
    for (const Schedule& copy : copies_) {
      auto& ranks = states_.emplace_back();
      for (const auto& list : copy.ranks) ranks.push_back({segment_list(list, shapes)});
      edges_.emplace_back(wiring_.edges.size());
    }
  }

  bool live() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t copy = 0; copy < copies_.size(); ++copy)
        for (std::size_t rank = 0; rank < states_[copy].size(); ++rank)
          while (step(copy, rank)) moved = true;
    }
    for (const auto& ranks : states_)
      for (const Rank& rank : ranks)
        if (rank.next < rank.list.size()) return false;
    return true;
  }

 private:
  struct Rank {
    std::vector<ListSegment> list;
    std::size_t next = 0;
    int posted = 0;
  };
  struct Ring {
    std::set<int> made, used;  // microbatches
    int begun = 0;
  };

  bool step(std::size_t copy, std::size_t rank) {
    Rank& state = states_[copy][rank];
    if (state.next == state.list.size()) return false;
    const ListSegment& segment = state.list[state.next];
    const Action& action = copies_[copy].ranks[rank][static_cast<std::size_t>(segment.action)];
    auto& edges = edges_[copy];
    if (segment.awaits >= 0)
      for (const auto& member : states_)
        if (member[rank].posted <= segment.awaits) return false;
    const std::int32_t input = wiring_.input(action), output = wiring_.output(action);
    if (segment.begins_action()) {
      if (input >= 0 && !edges[static_cast<std::size_t>(input)].made.contains(action.microbatch.value)) return false;
      if (output >= 0 && !room(edges[static_cast<std::size_t>(output)], depths_[static_cast<std::size_t>(output)])) return false;
      if (output >= 0) ++edges[static_cast<std::size_t>(output)].begun;
    }
    state.posted += segment.posts;
    ++state.next;
    if (!segment.ends_action()) return true;
    if (output >= 0) edges[static_cast<std::size_t>(output)].made.insert(action.microbatch.value);
    if (ends_microbatch(action.kind))
      for (const std::int32_t edge : {wiring_.activation_into(action.stage), wiring_.gradient_into(action.stage)})
        if (edge >= 0) edges[static_cast<std::size_t>(edge)].used.insert(wiring_.ordinal_of(action.microbatch));
    return true;
  }

  /// Slots are freed in order.
  static bool room(const Ring& ring, int depth) {
    int freed = 0;
    while (ring.used.contains(freed)) ++freed;
    return ring.begun - freed < depth;
  }

  std::vector<Schedule> copies_;
  const std::vector<int>& depths_;
  const Wiring wiring_;
  std::vector<std::vector<Rank>> states_;  // by copy and rank
  std::vector<std::vector<Ring>> edges_;   // by copy and edge
};

/// A random schedule with random segments, pairs and rings; it may deadlock.
struct RandomLists {
  Schedule schedule;
  Costs costs;

  explicit RandomLists(std::mt19937& random) {
    const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
    const auto requests = one_of_each(below(2) == 0 ? 2 : 4, 8);
    schedule = make_schedule(requests[below(requests.size())]);
    for (std::size_t swap = below(8); swap > 0; --swap) {
      Schedule other = schedule;
      auto& list = other.ranks[below(other.ranks.size())];
      const std::size_t at = below(list.size() - 1);
      std::swap(list[at], list[at + 1]);
      std::swap(list[at].overlaps_next, list[at + 1].overlaps_next);
      take_if_well_formed(other);
    }
    for (std::size_t pair = below(6); pair > 0; --pair) {
      Schedule other = schedule;
      auto& list = other.ranks[below(other.ranks.size())];
      list[below(list.size() - 1)].overlaps_next = true;
      take_if_well_formed(other);
    }
    costs.stages.resize(static_cast<std::size_t>(schedule.placement.stages()));
    costs.exchanges.resize(costs.stages.size());
    for (StageExchanges& stage : costs.exchanges)
      for (const ActionKind kind : {ActionKind::forward, ActionKind::input_gradient, ActionKind::backward}) {
        auto& shapes = stage.shape.of(kind);
        shapes.clear();
        int posted = 0;
        for (std::size_t segments = 1 + below(4); segments > 0; --segments) {
          const bool awaits = posted > 0 && below(4) > 0;
          shapes.push_back({awaits ? static_cast<int>(below(static_cast<std::size_t>(posted))) : -1, static_cast<int>(below(3))});
          posted += shapes.back().posts;
        }
        stage.of(kind) = {std::vector<double>(shapes.size(), 1), std::vector<double>(static_cast<std::size_t>(posted), 1)};
      }
    for (std::size_t edge = 0; edge < edges_of(schedule.placement).size(); ++edge) costs.slots.push_back(1 + static_cast<int>(below(4)));
  }

  [[nodiscard]] bool live() const {
    try {
      static_cast<void>(simulate_segments(schedule, costs));
      return true;
    } catch (const Error&) {
      return false;
    }
  }

 private:
  void take_if_well_formed(const Schedule& other) {
    try {
      check_well_formed(other);
      schedule = other;
    } catch (const Error&) {
    }
  }
};

// Members that have equal lists never wait for each other in a circle: an exchange is posted by all of them in the same place.
TEST(MemberLists, AreLiveIfTheListsOfOneMemberAre) {
  std::mt19937 random(7);
  int live = 0, as_blocks = 0;
  constexpr int trials = MEMBER_TRIALS;
  for (int trial = 0; trial < trials; ++trial) {
    const RandomLists lists(random);
    const bool folded = lists.live();
    const std::vector<Schedule> copies(2 + random() % 3, lists.schedule);
    ASSERT_EQ(Members(copies, shapes_of(lists.costs.exchanges), lists.costs.slots).live(), folded) << "trial " << trial;
    live += folded ? 1 : 0;
    // What is proved before a run: a pair as one entry needs at least as much.
    if (!replay_untimed(lists.schedule, lists.costs.slots).live) continue;
    ++as_blocks;
    EXPECT_TRUE(folded) << "trial " << trial;
  }
  EXPECT_GT(live, trials / 10);
  EXPECT_GT(as_blocks, trials / 20);
  EXPECT_LT(live, trials * 9 / 10) << "few of these deadlock";
}

// Two members whose lists differ can wait for each other although each list is live by itself; so equal lists are demanded.
TEST(MemberLists, ThatDifferAreRefused) {
  const Schedule schedule = table(Placement::single(1), 2, {"0F0 0F1 0B0 0B1"});
  Schedule swapped = schedule;
  std::swap(swapped.ranks[0][1], swapped.ranks[0][2]);
  StageShape shape;
  shape.of(ActionKind::forward) = {{-1, 1}, {0, 0}};
  shape.of(ActionKind::backward) = {{-1, 2}, {1, 0}};
  const std::vector<StashSlots> slots(1);
  const std::vector<StageShape> shapes{shape};
  const RankPlan one = make_rank_plan(schedule, RankId(0), slots, shapes), same = one;
  RankPlan other = make_rank_plan(swapped, RankId(0), slots, shapes);
  other.rank = RankId(3);
  EXPECT_NO_THROW(check_members({&one, &same}));
  tests::expect_error(
      [&] {
        check_members({&one, &same, &other});
      },
      ExitCode::internal, {"rank 0 and rank 3 share experts", "entry 2", "0F1", "0B0"});
}

}  // namespace
}  // namespace millrace::runtime
