#pragma once

#include <random>

#include "runtime/schedule/ledger.hpp"
#include "runtime/schedule/simulator/simulate.hpp"
#include "runtime/schedule/validate.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {

/// One for every pass of every stage.
inline Costs unit_costs(const Schedule& schedule) {
  Costs costs;
  costs.stages = uniform_costs(schedule.placement, 1, 1, 1);
  return costs;
}

/// A random schedule with random costs: any schedule, possibly with entries exchanged as far as it stays live, with any links,
/// rings, launches and noise.
struct RandomRun {
  Schedule schedule;
  Costs costs;
};

class RandomRuns {
 public:
  explicit RandomRuns(unsigned seed) : random_(seed) {}

  RandomRun next() {
    const auto requests = one_of_each(below(2) ? 2 : 4, 8);
    RandomRun run{make_schedule(requests[random_() % requests.size()]), {}};
    for (int swap = below(6); swap > 0; --swap) exchange(run.schedule);
    const auto stages = static_cast<std::size_t>(run.schedule.placement.stages());
    for (std::size_t stage = 0; stage < stages; ++stage) run.costs.stages.push_back({length(), length(), length(), 2 * length()});
    if (below(2)) add_pairs(run);
    if (below(4)) add_links(run);
    if (below(2)) add_slots(run);
    if (below(2)) run.costs.launch = 0.2 * length();
    run.costs.issue_ahead = 1 + below(3);
    if (below(2)) add_noise(run);
    return run;
  }

  int below(unsigned bound) { return static_cast<int>(random_() % bound); }
  double length() { return std::uniform_real_distribution<double>(0.5, 1.5)(random_); }

 private:
  // Exchanges two adjacent entries of a list if the result is legal and live.
  void exchange(Schedule& schedule) {
    Schedule other = schedule;
    auto& list = other.ranks[random_() % other.ranks.size()];
    const std::size_t at = random_() % (list.size() - 1);
    std::swap(list[at], list[at + 1]);
    try {
      check_schedule(other);
      schedule = std::move(other);
    } catch (const Error&) {
    }
  }

  void add_pairs(RandomRun& run) {
    for (int a = 0; a < run.schedule.placement.stages(); ++a) {
      for (int b = 0; b < run.schedule.placement.stages(); ++b) {
        if (below(2)) run.costs.pairs.push_back({StageId{a}, StageId{b}, 2 * length()});
      }
    }
  }

  void add_links(RandomRun& run) {
    for (std::size_t edge = 0; edge < edges_of(run.schedule.placement).size(); ++edge) {
      run.costs.links.push_back({0.3 * length(), 1e6, below(2) ? 1e6 / length() : 4e6 / length()});
    }
  }

  void add_slots(RandomRun& run) {
    run.costs.slots = make_ledger(run.schedule).depths;
    for (int& slots : run.costs.slots) {
      const int enough = std::exchange(slots, 1 + below(static_cast<unsigned>(slots)));
      if (!replay_untimed(run.schedule, run.costs.slots).live) slots = enough;
    }
  }

  void add_noise(RandomRun& run) {
    Noise& noise = run.costs.noise;
    for (std::size_t rank = 0; rank < run.schedule.ranks.size(); ++rank) noise.slowdown.push_back(length());
    noise.jitter = 0.3;
    noise.seed = random_();
    const int rank = below(static_cast<unsigned>(run.schedule.ranks.size()));
    noise.stalls.push_back({RankId{rank}, below(5), 3 * length()});
  }

  std::mt19937 random_;
};

}  // namespace millrace::runtime
