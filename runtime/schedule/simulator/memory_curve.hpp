#pragma once

#include <vector>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// From `time` on a rank holds `held`.
struct MemoryStep {
  double time = 0;
  double held = 0;
};

/// What a rank holds over time, as steps: microbatches of a whole rank, each from the begin of F to the end of W or B (of F in a
/// forward-only schedule). Begins with nothing at 0; times do not fall. Its maximum is microbatches_held (memory_peak.hpp).
[[nodiscard]] std::vector<MemoryStep> memory_curve(const Schedule& schedule, const Simulation& simulation, RankId rank);

}  // namespace millrace::runtime
