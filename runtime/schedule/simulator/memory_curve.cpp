#include "runtime/schedule/simulator/memory_curve.hpp"

namespace millrace::runtime {

std::vector<MemoryStep> memory_curve(const Schedule& schedule, const Simulation& simulation, RankId rank) {
  const Placement& placement = schedule.placement;
  const double stash = placement.directions() / static_cast<double>(placement.stages_of(rank).size());
  const bool forward_only = schedule.forward_only();
  std::vector<MemoryStep> curve{{0, 0}};
  int held = 0;
  std::size_t action = simulation.first[rank.index()];
  for (const Action& entry : schedule.ranks[rank.index()]) {
    if (entry.kind == ActionKind::forward) curve.push_back({simulation.begin[action], ++held * stash});
    const bool ends = forward_only ? entry.kind == ActionKind::forward : ends_microbatch(entry.kind);
    if (ends) curve.push_back({simulation.end[action], --held * stash});
    ++action;
  }
  return curve;
}

}  // namespace millrace::runtime
