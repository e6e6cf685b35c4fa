#include "actors/planning/link_costs.hpp"

#include "runtime/engine/exchange_costs.hpp"
#include "runtime/schedule/edge.hpp"

namespace millrace::actors {

std::vector<runtime::LinkCost> link_costs(const PipelinePlan& plan, const PlannedLinks& links) {
  if (links.latency <= 0 && links.bytes_per_unit <= 0) return {};
  const auto& placement = plan.schedule.placement;
  const auto one = placement.one_copy();
  std::vector<runtime::LinkCost> costs = runtime::uniform_links(one, links.latency);
  if (links.bytes_per_unit <= 0) return costs;
  for (const auto& edge : runtime::edges_of(one)) {
    auto& link = costs.at(edge.id.index());
    link.bytes = static_cast<double>(plan.boundary_bytes(*runtime::edge_into(placement, edge.consumer, edge.kind)));
    link.bytes_per_second = links.bytes_per_unit;
  }
  return costs;
}

std::vector<runtime::StageExchanges> exchange_costs(const PipelinePlan& plan, const PlannedLinks& links) {
  std::vector<runtime::StageExchanges> stages;
  if (plan.mesh.expert == 1) return stages;
  const runtime::GroupLink link{plan.mesh.expert, links.latency, links.bytes_per_unit};
  for (int stage = 0; stage < plan.schedule.placement.one_copy().stages(); ++stage)
    stages.push_back(runtime::exchange_costs(plan.programs(runtime::StageId(stage)), link));
  return stages;
}

}  // namespace millrace::actors
