#include "runtime/profile/prediction.hpp"

#include <array>
#include <numeric>

namespace millrace::runtime {
namespace {

constexpr std::array kinds{ActionKind::forward, ActionKind::input_gradient, ActionKind::weight_gradient, ActionKind::backward};

}  // namespace

Costs mean_costs(const Schedule& schedule, std::span<const StepView> steps) {
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(schedule.placement.stages()), {0, 0, 0, 0});
  std::vector<StageCost> counts = costs.stages;
  for (const StepView& step : steps) {
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) {
        const Action& action = schedule.ranks[rank][index];
        const TraceRecord& record = step.ranks[rank].actions[index];
        costs.stages[action.stage.index()].of(action.kind) += static_cast<double>(record.end - record.begin) * 1e-6;
        counts[action.stage.index()].of(action.kind) += 1;
      }
    }
  }
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    for (const ActionKind kind : kinds) {
      if (counts[stage].of(kind) > 0) costs.stages[stage].of(kind) /= counts[stage].of(kind);
    }
  }
  return costs;
}

Costs alike(const Costs& costs) {
  StageCost mean{0, 0, 0, 0};
  for (const ActionKind kind : kinds) {
    for (const StageCost& stage : costs.stages) mean.of(kind) += stage.of(kind) / static_cast<double>(costs.stages.size());
  }
  Costs result;
  result.stages.assign(costs.stages.size(), mean);
  return result;
}

std::vector<double> idle_times(const Simulation& simulation) {
  std::vector<double> idle;
  for (const RankTime& rank : simulation.ranks) idle.push_back(simulation.makespan - rank.busy);
  return idle;
}

double mean_idle(const Simulation& simulation) {
  const auto idle = idle_times(simulation);
  return std::accumulate(idle.begin(), idle.end(), 0.0) / static_cast<double>(idle.size());
}

}  // namespace millrace::runtime
