#include "runtime/schedule/simulator/gradient_reduction.hpp"

#include <algorithm>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

// When the gradient of every stage is complete; negative for a stage without a W or B.
std::vector<double> gradients_complete(const Schedule& schedule, const Simulation& simulation) {
  std::vector<double> complete(static_cast<std::size_t>(schedule.placement.stages()), -1);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) {
      const Action& action = schedule.ranks[rank][index];
      double& time = complete[action.stage.index()];
      if (ends_microbatch(action.kind)) time = std::max(time, simulation.end[simulation.first[rank] + index]);
    }
  }
  return complete;
}

}  // namespace

double GradientReduction::duration(double stage_bytes, int replicas) const {
  const double others = replicas - 1;
  return 2 * others * latency + 2 * others / replicas * stage_bytes / bytes_per_unit;
}

std::vector<RankReduction> reduce_gradients(const Schedule& schedule, const Simulation& simulation, const GradientReduction& reduction,
                                            int replicas) {
  const auto stages = static_cast<std::size_t>(schedule.placement.stages());
  MILLRACE_CHECK(reduction.bytes.empty() || reduction.bytes.size() == stages, ExitCode::internal, "runtime.schedule",
                 "{} sizes of gradients, expected {}", reduction.bytes.size(), stages);
  const auto complete = gradients_complete(schedule, simulation);
  std::vector<RankReduction> ranks(schedule.ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    RankReduction& result = ranks[rank];
    for (std::size_t action = simulation.first[rank]; action < simulation.first[rank + 1]; ++action)
      result.compute_end = std::max(result.compute_end, simulation.end[action]);
    result.end = result.compute_end;
    if (reduction.bytes.empty() || replicas == 1) continue;
    auto order = schedule.placement.stages_of(RankId{rank});
    std::ranges::stable_sort(order, {}, [&](StageId stage) { return complete[stage.index()]; });
    double lane = 0;
    for (const StageId stage : order) {
      if (complete[stage.index()] < 0) continue;
      lane = std::max(lane, complete[stage.index()]) + reduction.duration(reduction.bytes[stage.index()], replicas);
      result.last = stage;
    }
    result.end = std::max(result.end, lane);
  }
  return ranks;
}

}  // namespace millrace::runtime
