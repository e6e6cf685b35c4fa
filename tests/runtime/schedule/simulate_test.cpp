#include "runtime/schedule/simulator/simulate.hpp"

#include <cmath>
#include <map>

#include "tests/runtime/schedule/random_costs.hpp"

namespace millrace::runtime {
namespace {

// The longest path through the graph of all constraints, found by raising times until none has to be raised. It is independent of
// worklists, channels and rings: it lists every "not before" constraint of the rules one by one.
class LongestPath {
 public:
  LongestPath(const Schedule& schedule, const Costs& costs) : schedule_(schedule), costs_(costs) {
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) add_action(static_cast<int>(rank), static_cast<int>(index));
    }
    for (const Edge& edge : edges_of(schedule.placement)) add_edge(edge);
    settle();
  }
  double begin(int rank, int index) { return time_.at(node('b', rank, index)); }
  double end(int rank, int index) { return time_.at(node('e', rank, index)); }

 private:
  struct NotBefore {
    int later, earlier;  // time of `later` ≥ time of `earlier` + distance
    double distance;
  };

  int node(char what, int a, int b) {
    const auto [place, fresh] = nodes_.try_emplace({what, a, b}, static_cast<int>(time_.size()));
    if (fresh) time_.push_back(0);
    return place->second;
  }
  void demand(int later, int earlier, double distance) { rules_.push_back({later, earlier, distance}); }

  const Action& action(int rank, int index) const {
    return schedule_.ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(index)];
  }
  bool pair_at(int rank, int index) const { return index >= 0 && action(rank, index).overlaps_next; }

  double own_time(int rank, int index) const {
    const Action& a = action(rank, index);
    double time = costs_.stages[a.stage.index()].of(a.kind) * costs_.noise.factor(RankId{rank}, a);
    return time;
  }
  double time_of(int rank, int index) const {
    const int size = pair_at(rank, index) ? 2 : 1;
    double time = own_time(rank, index);
    if (size == 2) {
      time += own_time(rank, index + 1);
      for (const PairCost& pair : costs_.pairs) {
        if (pair.forward == action(rank, index).stage && pair.backward == action(rank, index + 1).stage) {
          time = pair.duration * costs_.noise.factor(RankId{rank}, action(rank, index));
        }
      }
    }
    for (const Stall& stall : costs_.noise.stalls) {
      if (stall.rank == RankId{rank} && stall.index >= index && stall.index < index + size) time += stall.duration;
    }
    return time;
  }

  void add_action(int rank, int index) {
    if (pair_at(rank, index - 1)) {  // a pair begins and ends with its first half
      for (const char what : {'b', 'e'}) {
        demand(node(what, rank, index), node(what, rank, index - 1), 0);
        demand(node(what, rank, index - 1), node(what, rank, index), 0);
      }
      return;
    }
    demand(node('e', rank, index), node('b', rank, index), time_of(rank, index));
    if (index > 0) demand(node('b', rank, index), node('e', rank, index - 1), 0);
    demand(node('b', rank, index), node('h', rank, index), costs_.launch);  // h: the begin of the host's launch
    const int before = pair_at(rank, index - 2) ? index - 2 : index - 1;
    if (index > 0) demand(node('h', rank, index), node('h', rank, before), costs_.launch);
    if (costs_.launch > 0 && index >= costs_.issue_ahead) demand(node('h', rank, index), node('e', rank, index - costs_.issue_ahead), 0);
  }

  int find(StageId stage, int microbatch, bool forward) const {
    const auto& list = schedule_.ranks[schedule_.placement.rank_of(stage).index()];
    for (std::size_t index = 0; index < list.size(); ++index) {
      const bool kind = forward ? list[index].kind == ActionKind::forward : makes_gradient(list[index].kind);
      if (kind && list[index].stage == stage && list[index].microbatch.value == microbatch) return static_cast<int>(index);
    }
    return -1;
  }
  int find_last(StageId stage, int microbatch) const {
    const auto& list = schedule_.ranks[schedule_.placement.rank_of(stage).index()];
    for (std::size_t index = 0; index < list.size(); ++index) {
      if (ends_microbatch(list[index].kind) && list[index].stage == stage && list[index].microbatch.value == microbatch)
        return static_cast<int>(index);
    }
    return -1;
  }
  // What an entry does with a boundary of this edge waits for: its launch by the host, or on a local edge, where an earlier entry of the
  // list is the other end, its begin. A pair has a single launch.
  int begin_of(const Edge& edge, int rank, int index) {
    return node(edge.local() ? 'b' : 'h', rank, pair_at(rank, index - 1) ? index - 1 : index);
  }

  void add_edge(const Edge& edge) {
    const bool forward = edge.kind == BoundaryKind::activation;
    const int from = edge.producer_rank.value;
    const int to = edge.consumer_rank.value;
    std::vector<int> microbatches;
    for (int m = 0; m < schedule_.microbatches; ++m) {
      if (find(edge.producer, m, forward) >= 0) microbatches.push_back(m);
    }
    const LinkCost link = costs_.links.empty() || edge.local() ? LinkCost{} : costs_.links[edge.id.index()];
    for (std::size_t k = 0; k < microbatches.size(); ++k) {
      const int maker = find(edge.producer, microbatches[k], forward);
      const int sent = node('t', edge.id.value, microbatches[k]);  // end of its transfer on the link
      demand(sent, node('e', from, maker), link.bytes / link.bytes_per_second);
      if (k > 0 && link.bytes > 0) demand(sent, node('t', edge.id.value, microbatches[k - 1]), link.bytes / link.bytes_per_second);
      demand(begin_of(edge, to, find(edge.consumer, microbatches[k], forward)), sent, link.latency);
      if (costs_.slots.empty()) continue;
      for (std::size_t before = 0; before + static_cast<std::size_t>(costs_.slots[edge.id.index()]) <= k; ++before) {
        demand(begin_of(edge, from, maker), node('e', to, find_last(edge.consumer, microbatches[before])), 0);
      }
    }
  }

  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const NotBefore& rule : rules_) {
        const double least = time_[static_cast<std::size_t>(rule.earlier)] + rule.distance;
        double& time = time_[static_cast<std::size_t>(rule.later)];
        if (time >= least) continue;
        time = least;
        moved = true;
      }
    }
  }

  const Schedule& schedule_;
  const Costs& costs_;
  std::map<std::tuple<char, int, int>, int> nodes_;
  std::vector<double> time_;
  std::vector<NotBefore> rules_;
};

TEST(Simulate, EqualsTheLongestPathOfRandomRuns) {
  RandomRuns runs(5);
  int bounded = 0;
  for (int trial = 0; trial < 150; ++trial) {
    const RandomRun run = runs.next();
    const Simulation simulation = simulate(run.schedule, run.costs);
    LongestPath path(run.schedule, run.costs);
    double makespan = 0;
    for (int rank = 0; rank < run.schedule.placement.ranks(); ++rank) {
      const int actions = static_cast<int>(run.schedule.ranks[static_cast<std::size_t>(rank)].size());
      for (int index = 0; index < actions; ++index) {
        const std::size_t action = simulation.at(RankId{rank}, index);
        ASSERT_NEAR(simulation.begin[action], path.begin(rank, index), 1e-9) << run.schedule.name << " rank " << rank << " index " << index;
        ASSERT_NEAR(simulation.end[action], path.end(rank, index), 1e-9) << run.schedule.name << " rank " << rank << " index " << index;
        makespan = std::max(makespan, path.end(rank, index));
      }
    }
    EXPECT_NEAR(simulation.makespan, makespan, 1e-9);
    for (const EdgeWait& edge : simulation.edges) bounded += edge.slot > 0;
    const Simulation quick = simulate(run.schedule, run.costs, false);
    EXPECT_EQ(quick.end, simulation.end);
  }
  EXPECT_GT(bounded, 10);  // rings that make at least one rank wait
}

TEST(Simulate, EveryMomentOfEveryRankHasACause) {
  RandomRuns runs(11);
  for (int trial = 0; trial < 100; ++trial) {
    const RandomRun run = runs.next();
    const Simulation simulation = simulate(run.schedule, run.costs);
    double link = 0, token = 0, slot = 0, edge_link = 0, edge_boundary = 0, edge_slot = 0;
    for (const RankTime& time : simulation.ranks) {
      EXPECT_NEAR(time.busy + time.activation + time.gradient + time.link + time.slot + time.launch + time.drain, simulation.makespan,
                  1e-9);
      link += time.link;
      token += time.activation + time.gradient;
      slot += time.slot;
    }
    for (const EdgeWait& wait : simulation.edges) {
      edge_link += wait.link;
      edge_boundary += wait.boundary;
      edge_slot += wait.slot;
    }
    EXPECT_NEAR(edge_link, link, 1e-9);
    EXPECT_NEAR(edge_boundary, token, 1e-9);
    EXPECT_NEAR(edge_slot, slot, 1e-9);
  }
}

TEST(Simulate, WaitsAreGivenToTheirCauses) {
  // Two ranks, one microbatch: F takes 1, B takes 2, a boundary occupies the link for 0.5 and takes 0.25 more to arrive, a launch
  // takes 0.125.
  const Schedule schedule = gpipe(2, 1);
  Costs costs = unit_costs(schedule);
  costs.links.assign(2, {0.25, 8, 16});
  costs.launch = 0.125;
  const Simulation simulation = simulate(schedule, costs);
  const RankTime& first = simulation.ranks[0];
  const RankTime& last = simulation.ranks[1];
  EXPECT_DOUBLE_EQ(simulation.makespan, 0.125 + 1 + 0.75 + 0.125 + 1 + 2 + 0.75 + 0.125 + 2);
  EXPECT_DOUBLE_EQ(last.activation, 1.125);
  EXPECT_DOUBLE_EQ(last.link, 0.75);
  EXPECT_DOUBLE_EQ(last.launch, 0.125);  // its B was launched while F ran
  EXPECT_DOUBLE_EQ(last.drain, 0.75 + 0.125 + 2);
  EXPECT_DOUBLE_EQ(first.gradient, 0.75 + 0.125 + 3);
  EXPECT_DOUBLE_EQ(first.link, 0.75);
  EXPECT_DOUBLE_EQ(first.launch, 0.25);
  EXPECT_DOUBLE_EQ(simulation.edges[0].link, 0.75);
}

TEST(Simulate, BothBubbles) {
  const Schedule schedule = make_schedule({"zb-h2", 4, 1, 8, {}});
  const Simulation simulation = simulate(schedule, unit_costs(schedule));
  EXPECT_NEAR(simulation.makespan, 27, 1e-9);
  EXPECT_NEAR(simulation.span, 24, 1e-9);
  EXPECT_NEAR(simulation.span_idle, 0, 1e-9);  // no rank is idle between its own first begin and last end
  EXPECT_NEAR(simulation.bubble(), 3.0 / 27, 1e-9);
}

TEST(Simulate, APairTakesItsOwnTimeWhereItHasOne) {
  const Schedule schedule = make_schedule({"dualpipe-v", 4, 2, 8, {}});
  Costs costs = unit_costs(schedule);
  const double sum = simulate(schedule, costs).makespan;
  for (int rank = 0; rank < 4; ++rank) {
    costs.pairs.push_back({StageId{rank}, StageId{7 - rank}, 1});  // F & B instead of 0.5 + 1
    costs.pairs.push_back({StageId{7 - rank}, StageId{rank}, 1});
  }
  EXPECT_LT(simulate(schedule, costs).makespan, sum - 2);
  for (PairCost& pair : costs.pairs) pair.duration = 1.5;
  EXPECT_NEAR(simulate(schedule, costs).makespan, sum, 1e-9);
}

TEST(Simulate, NoiseDependsOnItsKeysAlone) {
  Noise noise;
  noise.jitter = 0.2;
  noise.seed = 3;
  double sum = 0, squares = 0;
  const int samples = 20000;
  for (int m = 0; m < samples; ++m) {
    const Action action{StageId{m % 7}, ActionKind::forward, MicrobatchId{m}};
    const double factor = noise.factor(RankId{0}, action);
    EXPECT_EQ(factor, noise.factor(RankId{1}, action));
    sum += factor;
    squares += std::log(factor) * std::log(factor);
  }
  EXPECT_NEAR(sum / samples, 1, 0.01);
  EXPECT_NEAR(std::sqrt(squares / samples), 0.2, 0.02);
  const Action action{StageId{1}, ActionKind::backward, MicrobatchId{2}};
  const double before = noise.factor(RankId{0}, action);
  noise.slowdown = {1.3, 1};
  EXPECT_NEAR(noise.factor(RankId{0}, action), 1.3 * before, 1e-12);
  noise.seed = 4;
  EXPECT_NE(noise.factor(RankId{1}, action), before);
}

TEST(Simulate, ASlowRankSlowsTheStepAndAStallDelaysItOnce) {
  const Schedule schedule = one_f_one_b(4, 16);
  Costs costs = unit_costs(schedule);
  const double even = simulate(schedule, costs).makespan;
  costs.noise.slowdown = {1, 1, 1.5, 1};
  const double slow = simulate(schedule, costs).makespan;
  EXPECT_GT(slow, even + 14 * 1.5);
  costs.noise.slowdown.clear();
  costs.stages[2] = {1.5, 1.5, 1.5, 3};
  EXPECT_NEAR(simulate(schedule, costs).makespan, slow, 1e-9);
  costs.stages[2] = costs.stages[1];
  costs.noise.stalls = {{RankId{3}, 4, 2.5}};
  EXPECT_NEAR(simulate(schedule, costs).makespan, even + 2.5, 1e-9);
}

TEST(Simulate, CompletesExactlyWhereTheReplaySaysLive) {
  RandomRuns runs(71);
  int dead = 0;
  for (int trial = 0; trial < 100; ++trial) {
    RandomRun run = runs.next();
    run.costs.slots = make_ledger(run.schedule).depths;
    for (int& slots : run.costs.slots) slots = 1 + runs.below(static_cast<unsigned>(slots));
    const bool live = replay_untimed(run.schedule, run.costs.slots).live;
    bool complete = true;
    try {
      (void)simulate(run.schedule, run.costs, false);
    } catch (const Error&) {
      complete = false;
    }
    EXPECT_EQ(complete, live) << run.schedule.name;
    dead += !live;
  }
  EXPECT_GT(dead, 20);
  EXPECT_LT(dead, 90);
}

TEST(Simulate, WrongSizesAndDeadRingsAreErrors) {
  const Schedule schedule = gpipe(2, 3);
  Costs costs = unit_costs(schedule);
  costs.links.resize(1);
  expect_contains(error_of(ExitCode::internal, [&] { (void)simulate(schedule, costs); }), "1 link costs, expected 2");
  costs.links.clear();
  costs.slots = {2, 3};
  expect_contains(error_of(ExitCode::config, [&] { (void)simulate(schedule, costs); }), "rank 0 stops before its action 2, 0F2");
}

}  // namespace
}  // namespace millrace::runtime
