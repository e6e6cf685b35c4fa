#pragma once

#include <vector>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// From `time` on, a rank holds `held`.
struct MemoryStep {
  double time = 0;
  double held = 0;
};

/// The memory of a rank over time as a step function: microbatches of a whole rank, each held from the begin of F to the end of W
/// or B (of F in a forward-only schedule). Begins with 0 at time 0; times never decrease. Its maximum is microbatches_held()
/// (memory_peak.hpp).
[[nodiscard]] std::vector<MemoryStep> memory_curve(const Schedule& schedule, const Simulation& simulation, RankId rank);

}  // namespace millrace::runtime
