#pragma once

#include <vector>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/simulator/cost.hpp"
#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

struct TimedAction {
  Action action;
  double begin = 0;
  double end = 0;
};

/// The timeline of a step, action by action: a simple interface to simulate().
struct Timeline {
  std::vector<std::vector<TimedAction>> ranks;
  double makespan = 0;       // end of the last action; the step begins at 0
  double span = 0;           // the longest rank: its own last end − its own first begin
  std::vector<double> busy;  // by rank: total time of its actions
  // by rank: peak number of microbatches held at once, from F to W or B, in microbatches of a whole rank (stashes ÷ chunks of the
  // rank)
  std::vector<double> peak;
  [[nodiscard]] double worst_peak() const;
};

/// Runs the lists in order, each action as soon as its rank is free and its input has arrived. A boundary reaches another rank
/// `hop` after the end of its action, and its own rank at once. Slots are unbounded, and a pair takes the sum of its halves.
/// `costs` is indexed by StageId. The schedule must be well formed; Error(config) if it deadlocks.
[[nodiscard]] Timeline replay(const Schedule& schedule, const std::vector<StageCost>& costs, double hop);

/// The timeline of an existing simulation.
[[nodiscard]] Timeline timeline_of(const Schedule& schedule, const Simulation& simulation);

}  // namespace millrace::runtime
