#include "runtime/schedule/simulator/path_summary.hpp"

#include "runtime/schedule/simulator/critical_path.hpp"

namespace millrace::runtime {

PathSummary path_summary(const Schedule& schedule, const Costs& costs, const Simulation& simulation) {
  PathSummary result;
  result.ranks.assign(schedule.ranks.size(), 0);
  for (const PathStep& step : critical_path(schedule, costs, simulation)) {
    const double time = step.end - step.begin;
    if (step.kind == PathStep::Kind::transfer) {
      result.transfer += time;
      ++result.transfers;
    } else if (step.kind == PathStep::Kind::launch) {
      result.launch += time;
    } else {
      const std::size_t rank = simulation.rank_of(step.action).index();
      const auto& list = schedule.ranks[rank];
      std::size_t index = step.action - simulation.first[rank];
      if (index > 0 && list[index - 1].overlaps_next) --index;
      result.kinds[static_cast<std::size_t>(list[index].kind)] += time;
      result.ranks[rank] += time;
      ++result.actions;
    }
  }
  return result;
}

}  // namespace millrace::runtime
