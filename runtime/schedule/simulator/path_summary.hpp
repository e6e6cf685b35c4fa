#pragma once

#include <array>
#include <vector>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// The critical path of a step, summed by kind and by rank.
struct PathSummary {
  std::array<double, 4> kinds{};  // time by ActionKind; that of an overlapped pair counts for its first action
  std::vector<double> ranks;      // time in actions by rank
  double transfer = 0, launch = 0;
  int actions = 0, transfers = 0;
};

/// `simulation` is simulate(schedule, costs), with its trace.
[[nodiscard]] PathSummary path_summary(const Schedule& schedule, const Costs& costs, const Simulation& simulation);

}  // namespace millrace::runtime
