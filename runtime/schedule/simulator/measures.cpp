#include "runtime/schedule/simulator/measures.hpp"

#include <algorithm>

#include "runtime/schedule/simulator/memory_peak.hpp"

namespace millrace::runtime {

double StepMeasures::worst_peak() const { return peak.empty() ? 0 : *std::max_element(peak.begin(), peak.end()); }

StepMeasures measure(const Schedule& schedule, const Simulation& simulation) {
  StepMeasures result;
  result.makespan = simulation.makespan;
  result.bubble = simulation.bubble();
  result.bubble_time = result.makespan;
  result.span = simulation.span;
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    result.bubble_time -= simulation.ranks[rank].busy / static_cast<double>(simulation.ranks.size());
    result.idle.push_back(result.makespan > 0 ? 1 - simulation.ranks[rank].busy / result.makespan : 0);
    result.peak.push_back(microbatches_held(schedule, RankId{rank}));
    if (simulation.first[rank] == simulation.first[rank + 1]) continue;
    const double own = simulation.end[simulation.first[rank + 1] - 1] - simulation.begin[simulation.first[rank]];
    const double idle = own - simulation.ranks[rank].busy;
    if (own <= 0 || idle <= result.span_bubble_time) continue;
    result.span_bubble_time = idle;
    result.span_bubble = idle / own;
  }
  return result;
}

}  // namespace millrace::runtime
