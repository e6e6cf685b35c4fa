#pragma once

#include <vector>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// The measures by which schedules are compared. There are two bubbles: that of the whole step, from the first begin to the last
/// end, which is the cost with a barrier after every step; and that of the rank that is idle longest between its own first begin
/// and its own last end, which is the cost if every rank continues without waiting for the others.
struct StepMeasures {
  double makespan = 0;
  double bubble_time = 0;  // makespan − mean of the ranks' action times
  double bubble = 0;       // bubble_time ÷ makespan
  double span = 0;
  double span_bubble_time = 0;
  double span_bubble = 0;    // the same ÷ that rank's own span
  std::vector<double> idle;  // by rank: fraction of the makespan without an action
  std::vector<double> peak;  // by rank: peak number of microbatches held, from F to W or B, in microbatches of a whole rank
  [[nodiscard]] double worst_peak() const;
};

[[nodiscard]] StepMeasures measure(const Schedule& schedule, const Simulation& simulation);

}  // namespace millrace::runtime
