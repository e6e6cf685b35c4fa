#include "runtime/engine/exchange_costs.hpp"

#include <numeric>

#include "runtime/engine/stage_shapes.hpp"

namespace millrace::runtime {
namespace {

double work_of(const StageShape& stage, ActionKind kind) {
  const auto& segments = stage.usual_of(kind).compute;
  return std::accumulate(segments.begin(), segments.end(), 0.0);
}

}  // namespace

StageExchanges exchange_costs(const ProgramSet& programs, const GroupLink& link) {
  StageExchanges stage{.shape = training_shape(programs, link.members)};
  for (const ActionKind kind : all_action_kinds) {
    const SegmentCosts& usual = stage.shape.usual_of(kind);
    const double whole = work_of(stage.shape, kind), equal = 1 / static_cast<double>(usual.compute.size());
    for (const double work : usual.compute) stage.of(kind).compute.push_back(whole > 0 ? work / whole : equal);
    for (const double work : usual.exchange) {
      const double bytes = work / usual_flops_per_sent_byte;
      stage.bytes[static_cast<std::size_t>(kind)].push_back(bytes);
      const double latency = bytes > 0 ? link.latency : 0;  // a round that is not expected to be needed
      stage.of(kind).exchange.push_back(latency + (link.bytes_per_unit > 0 ? bytes / link.bytes_per_unit : 0));
    }
  }
  return stage;
}

Costs usual_costs(const std::vector<ProgramSet>& stages, int members) {
  Costs costs;
  for (const ProgramSet& programs : stages) {
    const StageExchanges& stage = costs.exchanges.emplace_back(exchange_costs(programs, {members, 0, 1 / usual_flops_per_sent_byte}));
    StageCost& cost = costs.stages.emplace_back();
    for (const ActionKind kind : all_action_kinds) cost.of(kind) = work_of(stage.shape, kind);
  }
  return costs;
}

}  // namespace millrace::runtime
