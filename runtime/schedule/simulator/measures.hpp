#pragma once

#include <vector>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// What people compare schedules by. Two bubbles: one of the whole step, from the first begin to the last end, which is what a step costs
/// with a barrier behind it; and one of the rank that stands idle longest between its own first begin and its own last end, which is what
/// it would cost if every rank went on by itself.
struct StepMeasures {
  double makespan = 0;
  double bubble_time = 0;  // makespan − mean of the ranks' action times
  double bubble = 0;       // the same ÷ makespan
  double span = 0;
  double span_bubble_time = 0;
  double span_bubble = 0;    // the same ÷ that rank's own time
  std::vector<double> idle;  // by rank: part of the makespan without an action
  std::vector<double> peak;  // by rank: most microbatches held, F to W or B, in those of a whole rank
  [[nodiscard]] double worst_peak() const;
};

[[nodiscard]] StepMeasures measure(const Schedule& schedule, const Simulation& simulation);

}  // namespace millrace::runtime
