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

/// A step laid out in time, action by action: the simple face of simulate().
struct Timeline {
  std::vector<std::vector<TimedAction>> ranks;
  double makespan = 0;       // last end; the step begins at 0
  double span = 0;           // the longest rank: its own last end − its own first begin
  std::vector<double> busy;  // by rank: time with an action
  std::vector<double> peak;  // by rank: most microbatches held at once, F to W or B, in whole-rank units (stashes ÷ chunks of the rank)
  [[nodiscard]] double worst_peak() const;
};

/// Runs the lists in order, each action as soon as its rank is free and its token has arrived; a token reaches another rank `hop` after
/// the end of its action, its own rank at once. Slots are unbounded, a pair takes the sum of its halves. `costs` by StageId. The schedule
/// must be well formed; Error(config) if dead.
[[nodiscard]] Timeline replay(const Schedule& schedule, const std::vector<StageCost>& costs, double hop);

/// The same of a simulation that is there already.
[[nodiscard]] Timeline timeline_of(const Schedule& schedule, const Simulation& simulation);

}  // namespace millrace::runtime
