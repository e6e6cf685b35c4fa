#pragma once

#include <vector>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// One element of the longest chain through a step: a list entry, or what lies between two entries.
struct PathStep {
  enum class Kind : std::uint8_t { action, transfer, launch } kind = Kind::action;
  std::uint32_t action = 0;  // the action itself; for a transfer or launch, the action that waited for it
  EdgeId edge = no_edge;     // for a transfer
  std::uint32_t count = 1;   // number of consecutive transfers or launches
  double begin = 0, end = 0;
};

/// The chain of actions, transfers and launches that determines the length of the step, from 0 to the makespan without a gap.
/// `simulation` is simulate(schedule, costs), with its trace.
[[nodiscard]] std::vector<PathStep> critical_path(const Schedule& schedule, const Costs& costs, const Simulation& simulation);

/// For each action, the time by which it could take longer without delaying the end of the step; 0 on the critical path.
[[nodiscard]] std::vector<double> slack(const Schedule& schedule, const Costs& costs, const Simulation& simulation);

/// The derivative of the makespan with respect to each input, summed over the input's occurrences on the critical path. Exact for
/// small changes, unless two critical paths have the same length.
struct Sensitivity {
  std::vector<StageCost> stages;  // by StageId, with respect to the duration of each kind
  std::vector<double> pairs;      // in the order of Costs::pairs
  struct Link {
    double latency = 0;
    double occupancy = 0;  // with respect to the time that one boundary occupies the edge
  };
  std::vector<Link> links;  // by EdgeId
  double launch = 0;
};
[[nodiscard]] Sensitivity sensitivity(const Schedule& schedule, const Costs& costs, const Simulation& simulation);

}  // namespace millrace::runtime
