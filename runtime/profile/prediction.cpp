#include "runtime/profile/prediction.hpp"

namespace millrace::runtime {
Costs mean_costs(const Schedule& schedule, std::span<const StepView> steps) {
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(schedule.placement.stages()), {0, 0, 0, 0});
  std::vector<StageCost> counts = costs.stages;
  for (const StepView& step : steps) {
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) {
        const Action& action = schedule.ranks[rank][index];
        const TraceRecord& record = step.ranks[rank].actions[index];
        costs.stages[action.stage.index()].of(action.kind) += milliseconds(record.end - record.begin);
        counts[action.stage.index()].of(action.kind) += 1;
      }
    }
  }
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    for (const ActionKind kind : all_action_kinds) {
      if (counts[stage].of(kind) > 0) costs.stages[stage].of(kind) /= counts[stage].of(kind);
    }
  }
  return costs;
}

}  // namespace millrace::runtime
