#include "actors/rank/action_costs.hpp"

namespace millrace::actors {

ActionCosts::ActionCosts(const runtime::Placement& placement, runtime::RankId rank, std::int64_t first_step)
    : placement_(placement), first_step_(first_step) {
  for (const auto stage : placement.stages_of(rank)) {
    auto& kinds = chunks_.emplace_back();
    for (const auto kind : runtime::all_action_kinds) {
      auto& cost = kinds[static_cast<std::size_t>(kind)];
      cost.stage = stage.value;
      cost.kind = kind;
    }
  }
}

void ActionCosts::add(std::int64_t step, const runtime::Action& action, std::int32_t segment, std::int64_t device, std::int64_t host) {
  if (step < first_step_) return;
  auto& cost = chunks_[static_cast<std::size_t>(placement_.chunk_of(action.stage))][static_cast<std::size_t>(action.kind)];
  if (segment == 0) ++cost.count;
  cost.device += device;
  cost.host += host;
}

std::vector<ActionCost> ActionCosts::sums() const {
  std::vector<ActionCost> all;
  for (const auto& kinds : chunks_)
    for (const auto& cost : kinds)
      if (cost.count > 0) all.push_back(cost);
  return all;
}

}  // namespace millrace::actors
