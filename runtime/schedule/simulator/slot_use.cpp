#include "runtime/schedule/simulator/slot_use.hpp"

#include <algorithm>

#include "runtime/schedule/causality.hpp"
#include "runtime/schedule/wiring.hpp"

namespace millrace::runtime {
namespace {

constexpr double rounding = 1e-12;

// The peak number of occupied slots, from the arrivals and releases of one edge. A slot freed at the very moment of an arrival
// (up to rounding) is too late for it.
int peak_slots(std::vector<double>& arrivals, std::vector<double>& releases) {
  std::sort(arrivals.begin(), arrivals.end());
  std::sort(releases.begin(), releases.end());
  int peak = 0;
  std::size_t free = 0;
  for (std::size_t taken = 0; taken < arrivals.size(); ++taken) {
    while (free < taken && releases[free] < arrivals[taken] * (1 - rounding)) ++free;
    peak = std::max(peak, static_cast<int>(taken + 1 - free));
  }
  return peak;
}

}  // namespace

std::vector<int> slots_used(const Schedule& schedule, const Costs& costs, const Simulation& simulation, SlotRelease release) {
  const ActionTable table(schedule);
  const bool forward_only = schedule.forward_only();
  std::vector<int> used;
  for (const Edge& edge : edges_of(schedule.placement)) {
    const bool activation = edge.kind == BoundaryKind::activation;
    const LinkCost link = costs.links.empty() || edge.local() ? LinkCost{} : costs.links[edge.id.index()];
    std::vector<double> arrivals, releases;
    double link_free = 0;
    for (int count = 0; count < schedule.microbatches_of(edge.producer); ++count) {
      const MicrobatchId m = schedule.microbatch_of(edge.producer, count);
      if (!activation && forward_only) break;
      const int maker = activation ? table.forward(edge.producer, m) : table.gradient(edge.producer, m);
      const int user = activation ? table.forward(edge.consumer, m) : table.gradient(edge.consumer, m);
      const int last = release == SlotRelease::last_use && !forward_only ? table.last(edge.consumer, m) : user;
      link_free = std::max(link_free, simulation.end[simulation.at(edge.producer_rank, maker)]) + link.occupancy();
      arrivals.push_back(link_free + link.latency);
      const std::size_t use = simulation.at(edge.consumer_rank, last);
      releases.push_back(release == SlotRelease::begin ? simulation.begin[use] : simulation.end[use]);
    }
    used.push_back(peak_slots(arrivals, releases));
  }
  return used;
}

}  // namespace millrace::runtime
