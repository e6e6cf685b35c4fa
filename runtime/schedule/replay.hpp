#pragma once

#include <vector>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// Durations of one stage's actions, in any one unit.
struct StageCost {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double backward = 2;
  [[nodiscard]] double of(ActionKind kind) const;
};

/// The same cost for every stage: `forward`, `input_gradient`, `weight_gradient` of a whole rank, divided by the chunks of a rank; B = I +
/// W.
[[nodiscard]] std::vector<StageCost> uniform_costs(const Placement& placement, double forward, double input_gradient,
                                                   double weight_gradient);

struct TimedAction {
  Action action;
  double begin = 0;
  double end = 0;
};

/// A step laid out in time.
struct Timeline {
  std::vector<std::vector<TimedAction>> ranks;
  double makespan = 0;       // last end − first begin over all ranks
  double span = 0;           // the longest rank: its own last end − its own first begin
  std::vector<double> busy;  // by rank: sum of durations
  std::vector<double> peak;  // by rank: most microbatches held at once, F to W or B, in whole-rank units (stashes ÷ chunks of the rank)
  [[nodiscard]] double worst_peak() const;
};

/// Runs the lists in order, each action as soon as its rank is free and its token has arrived; a token reaches another rank `hop` after
/// the end of its action, its own rank at once. Slots are unbounded. `costs` by StageId. The schedule must be well formed; Error(config) if
/// dead.
[[nodiscard]] Timeline replay(const Schedule& schedule, const std::vector<StageCost>& costs, double hop);

}  // namespace millrace::runtime
