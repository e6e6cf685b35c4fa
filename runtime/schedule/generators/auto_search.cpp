// auto: a greedy search for given costs, link latency and memory. It proceeds in rounds: in each round every rank runs at most
// one forward, then one input gradient; weight gradients fill idle time. Eight variants of the rule are tried and the best is
// kept. Qi, Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024, arXiv 2401.10241, section 3.1. With unit costs and
// the memory of 1F1B it finds ZB-H1 again, with twice that memory the span of ZB-H2:
//
//     r0|F0 F1 F2 F3 .  .  .  I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7 |
//     r1|.  F0 F1 F2 .  .  I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7 |
//     r2|.  .  F0 F1 .  I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7 |
//     r3|.  .  .  F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7 |
//
// Forwards are monotone: a rank runs one only in a round in which the next rank does. This makes the search better than running
// whatever is ready.

#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"
#include "runtime/schedule/generators/list_writer.hpp"
#include "runtime/schedule/generators/named_schedule.hpp"

namespace millrace::runtime {
namespace {

// The choices of the rule for which no single answer is best.
struct Variant {
  bool delay_first_backward = false;  // the last warm-up forward may end after the first gradient could have started
  bool skip_forwards = false;         // a forward that would delay the next rank's next gradient is postponed to a later round
  bool fill_small_gaps = false;       // a weight gradient may delay its rank even while the rank has less idle time than the worst rank
};

class Search {
 public:
  Search(int microbatches, const SearchInput& input, Variant variant)
      : schedule_(blank_schedule("auto", Placement::single(static_cast<int>(input.ranks.size())), microbatches)),
        latency_(input.latency),
        microbatches_(microbatches),
        variant_(variant) {
    for (std::size_t rank = 0; rank < input.ranks.size(); ++rank) {
      ranks_.push_back({input.ranks[rank], ListWriter(schedule_, RankId{rank})});
      ranks_.back().forward_ends.reserve(static_cast<std::size_t>(microbatches));
      ranks_.back().gradient_ends.reserve(static_cast<std::size_t>(microbatches));
    }
  }

  void run() {
    warm_up();
    for (int round = 1; round < microbatches_; ++round) {
      const std::vector<bool> forwards = choose_forwards(round);
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        if (forwards[rank]) forward(rank);
      for (std::size_t rank = ranks_.size(); rank-- > 0;) gradient(rank);
    }
    for (Rank& rank : ranks_)
      while (rank.owed() > 0) weight(rank);
  }

  /// The time of a step with a barrier at its end; then the longest time of any rank between its own first and last action.
  [[nodiscard]] std::pair<double, double> quality() const {
    double first = ranks_.front().begin, last = 0, span = 0;
    for (const Rank& rank : ranks_) {
      first = std::min(first, rank.begin);
      last = std::max(last, rank.clock);
      span = std::max(span, rank.clock - rank.begin);
    }
    return {last - first, span};
  }

  [[nodiscard]] Schedule take() { return std::move(schedule_); }

 private:
  struct Rank {
    RankCost cost;
    ListWriter list;
    std::vector<double> forward_ends{}, gradient_ends{};  // by microbatch
    int weights = 0;
    double begin = 0;  // begin of its first forward
    double clock = 0;  // end of its latest action
    double memory = 0;
    double bubble = 0;  // idle time since its first forward
    [[nodiscard]] int forwards() const { return static_cast<int>(forward_ends.size()); }
    [[nodiscard]] int gradients() const { return static_cast<int>(gradient_ends.size()); }
    [[nodiscard]] int owed() const { return gradients() - weights; }
  };

  // -- times of arrival --

  [[nodiscard]] double forward_arrival(std::size_t rank) const {
    if (rank == 0) return 0;
    return ranks_[rank - 1].forward_ends[ranks_[rank].forward_ends.size()] + latency_;
  }
  [[nodiscard]] double gradient_arrival(std::size_t rank) const {
    const std::size_t m = ranks_[rank].gradient_ends.size();
    return rank + 1 == ranks_.size() ? ranks_[rank].forward_ends[m] : ranks_[rank + 1].gradient_ends[m] + latency_;
  }

  // -- actions --

  void advance(Rank& rank, double arrival, double duration) {
    const double idle = std::max(0.0, arrival - rank.clock);
    if (rank.forwards() > 0) {
      rank.bubble += idle;
      worst_bubble_ = std::max(worst_bubble_, rank.bubble);
    } else {
      rank.begin = rank.clock + idle;
    }
    rank.clock += idle + duration;
  }

  void forward(std::size_t index) {
    Rank& rank = ranks_[index];
    const double arrival = forward_arrival(index);
    make_room(rank, room_for_one(rank.cost));
    fill(rank, arrival);
    advance(rank, arrival, rank.cost.forward);
    rank.memory += rank.cost.held;
    rank.forward_ends.push_back(rank.clock);
    rank.list.forward(StageId{index});
  }

  void gradient(std::size_t index) {
    Rank& rank = ranks_[index];
    const double arrival = gradient_arrival(index);
    // Once rank 0 has no forwards left, nothing it does delays another rank.
    if (index == 0 && rank.forwards() == microbatches_)
      while (rank.owed() > 0) weight(rank);
    make_room(rank, rank.cost.held_weight - rank.cost.held);
    fill(rank, arrival);
    advance(rank, arrival, rank.cost.input_gradient);
    rank.memory += rank.cost.held_weight - rank.cost.held;
    rank.gradient_ends.push_back(rank.clock);
    rank.list.input_gradient(StageId{index});
  }

  void weight(Rank& rank) {
    rank.clock += rank.cost.weight_gradient;
    rank.memory -= rank.cost.held_weight;
    ++rank.weights;
    rank.list.weight_gradient();
  }

  // If a microbatch needs more memory from I to W than from F to I, its forward must leave room for that.
  [[nodiscard]] static double room_for_one(const RankCost& cost) { return std::max(cost.held, cost.held_weight); }
  [[nodiscard]] static bool fits(const RankCost& cost, double memory) { return memory <= cost.limit * (1 + 1e-12); }

  void make_room(Rank& rank, double more) {
    while (rank.owed() > 0 && !fits(rank.cost, rank.memory + more)) weight(rank);
  }

  // Runs weight gradients until the boundary of the next action arrives.
  void fill(Rank& rank, double arrival) {
    while (rank.owed() > 0 && rank.clock + rank.cost.weight_gradient <= arrival) weight(rank);
    const double gap = arrival - rank.clock;
    if (gap <= 0 || rank.owed() == 0) return;
    const bool still_ahead = gap <= worst_bubble_ - rank.bubble;
    if (!still_ahead || variant_.fill_small_gaps) weight(rank);
  }

  // -- round 0 --

  // How many forwards beyond the first each rank should run before the first gradient can arrive.
  [[nodiscard]] std::vector<int> extra_forwards() const {
    std::vector<int> extra(ranks_.size(), 0);
    const Rank& last = ranks_.back();
    double gradient_end = last.clock + last.cost.input_gradient;
    for (std::size_t index = ranks_.size() - 1; index-- > 0;) {
      const Rank& rank = ranks_[index];
      const double arrival = gradient_end + latency_;
      double clock = rank.clock;
      for (double memory = rank.memory + room_for_one(rank.cost); rank.forwards() + extra[index] < microbatches_;
           memory += rank.cost.held) {
        const bool in_time = variant_.delay_first_backward ? clock < arrival : clock + rank.cost.forward <= arrival;
        if (!in_time || !fits(rank.cost, memory)) break;
        clock += rank.cost.forward;
        ++extra[index];
      }
      gradient_end = std::max(clock, arrival) + rank.cost.input_gradient;
    }
    // The numbers must strictly decrease from rank to rank, unless the previous rank has run out of microbatches, since every
    // forward needs an input.
    for (std::size_t index = 1; index < extra.size(); ++index) {
      const bool all = ranks_[index - 1].forwards() + extra[index - 1] >= microbatches_;
      extra[index] = std::min(extra[index], all ? extra[index - 1] : std::max(0, extra[index - 1] - 1));
    }
    return extra;
  }

  void warm_up() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) forward(rank);
    const std::vector<int> extra = extra_forwards();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      for (int i = 0; i < extra[rank]; ++i) forward(rank);
    for (std::size_t rank = ranks_.size(); rank-- > 0;) gradient(rank);
  }

  // -- later rounds --

  // When each rank could start the gradient of this round if no rank ran a further forward.
  [[nodiscard]] std::vector<double> gradient_starts(int round) const {
    std::vector<double> starts(ranks_.size());
    double arrival = 0;
    for (std::size_t index = ranks_.size(); index-- > 0;) {
      const Rank& rank = ranks_[index];
      starts[index] = std::max(rank.clock, arrival);
      const bool lacks_forward = rank.forwards() <= round;
      arrival = starts[index] + (lacks_forward ? rank.cost.forward : 0) + rank.cost.input_gradient + latency_;
    }
    return starts;
  }

  [[nodiscard]] bool worthwhile(std::size_t index, const std::vector<double>& starts) const {
    if (!variant_.skip_forwards || index + 1 == ranks_.size()) return true;
    const Rank& next = ranks_[index + 1];
    const double here = std::max(ranks_[index].clock, forward_arrival_or(index, ranks_[index].clock)) + ranks_[index].cost.forward;
    return std::max(next.clock, here + latency_) + next.cost.forward <= starts[index + 1];
  }
  [[nodiscard]] double forward_arrival_or(std::size_t index, double otherwise) const {
    const bool made = index > 0 && ranks_[index - 1].forwards() > ranks_[index].forwards();
    return made ? forward_arrival(index) : otherwise;
  }

  [[nodiscard]] bool has_room(const Rank& rank) const {
    return fits(rank.cost, rank.memory - rank.owed() * rank.cost.held_weight + room_for_one(rank.cost));
  }

  [[nodiscard]] std::vector<bool> choose_forwards(int round) const {
    const std::vector<double> starts = gradient_starts(round);
    const auto needed = [&](std::size_t index) { return ranks_[index].forwards() <= round; };
    std::vector<bool> chosen(ranks_.size(), false);
    for (std::size_t index = ranks_.size(); index-- > 0;) {
      const Rank& rank = ranks_[index];
      if (rank.forwards() == microbatches_) continue;
      const bool last = index + 1 == ranks_.size();
      const bool monotone = last || chosen[index + 1] || ranks_[index + 1].forwards() == microbatches_;
      chosen[index] = needed(index) || (monotone && has_room(rank) && worthwhile(index, starts));
    }
    for (std::size_t index = 1; index < ranks_.size(); ++index) {  // a forward needs its input
      const int made = ranks_[index - 1].forwards() + (chosen[index - 1] ? 1 : 0);
      if (made <= ranks_[index].forwards()) chosen[index] = false;
    }
    return chosen;
  }

  Schedule schedule_;
  double latency_;
  int microbatches_;
  Variant variant_;
  double worst_bubble_ = 0;
  std::vector<Rank> ranks_;
};

SearchInput complete_input(int ranks, const SearchInput& input) {
  SearchInput complete = input;
  RankCost like_1f1b;
  like_1f1b.limit = ranks;
  if (complete.ranks.empty()) complete.ranks.assign(static_cast<std::size_t>(ranks), like_1f1b);
  MILLRACE_CHECK(static_cast<int>(complete.ranks.size()) == ranks, ExitCode::config, schedule_component,
                 "auto has costs of {} ranks, expected one for each of {}", complete.ranks.size(), ranks);
  MILLRACE_CHECK(std::isfinite(input.latency) && input.latency >= 0, ExitCode::config, schedule_component,
                 "auto: latency {}, expected 0 or more", input.latency);
  for (std::size_t rank = 0; rank < complete.ranks.size(); ++rank) {
    const RankCost& cost = complete.ranks[rank];
    for (double number : {cost.forward, cost.input_gradient, cost.weight_gradient, cost.held, cost.held_weight}) {
      MILLRACE_CHECK(std::isfinite(number) && number >= 0, ExitCode::config, schedule_component,
                     "auto: a cost of rank {} is {}, expected 0 or more", rank, number);
    }
    const double one = std::max(cost.held, cost.held_weight);
    MILLRACE_CHECK(cost.limit >= one, ExitCode::config, schedule_component,
                   "auto: the memory limit of rank {} is {}, but one microbatch takes {}; nearest legal limit: {}", rank, cost.limit, one,
                   one);
  }
  return complete;
}

}  // namespace

Schedule auto_search(int ranks, int microbatches, const SearchInput& input) {
  const SearchInput complete = complete_input(ranks, input);
  std::optional<Schedule> best;
  std::pair<double, double> quality;
  for (int bits = 0; bits < 8; ++bits) {
    Search search(microbatches, complete, {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0});
    search.run();
    if (best && search.quality() >= quality) continue;
    quality = search.quality();
    best = search.take();
  }
  return *best;
}

const NamedSchedule& auto_search_schedule() {
  static constexpr NamedSchedule named{
      .name = "auto",
      .chunks = Chunks::one,
      .make = [](const ScheduleRequest& run) { return auto_search(run.ranks, run.microbatches, run.search); },
      .bubble = "what the search finds",
      .peak = "within the limit, by default P",
      .messages = "2(P-1)",
      .requirements = "any P and M",
      .use = "unequal ranks, known costs, or a memory limit between zb-h1's and zb-h2's"};
  return named;
}

}  // namespace millrace::runtime
