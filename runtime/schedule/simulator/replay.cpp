#include "runtime/schedule/simulator/replay.hpp"

#include <algorithm>

#include "runtime/schedule/simulator/memory_peak.hpp"

namespace millrace::runtime {

double Timeline::worst_peak() const { return peak.empty() ? 0 : *std::max_element(peak.begin(), peak.end()); }

Timeline replay(const Schedule& schedule, const std::vector<StageCost>& costs, double hop) {
  Costs all;
  all.stages = costs;
  if (hop > 0) all.links = uniform_links(schedule.placement, hop);
  return timeline_of(schedule, simulate(schedule, all, false));
}

Timeline timeline_of(const Schedule& schedule, const Simulation& simulation) {
  Timeline timeline;
  timeline.makespan = simulation.makespan;
  timeline.span = simulation.span;
  timeline.ranks.resize(schedule.ranks.size());
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) {
      const std::size_t action = simulation.first[rank] + index;
      timeline.ranks[rank].push_back({schedule.ranks[rank][index], simulation.begin[action], simulation.end[action]});
    }
    timeline.busy.push_back(simulation.ranks[rank].busy);
    timeline.peak.push_back(microbatches_held(schedule, RankId{rank}));
  }
  return timeline;
}

}  // namespace millrace::runtime
