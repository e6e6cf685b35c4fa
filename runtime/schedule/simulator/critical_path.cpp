#include "runtime/schedule/simulator/critical_path.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "runtime/schedule/simulator/pair_table.hpp"
#include "runtime/schedule/wiring.hpp"

namespace millrace::runtime {
namespace {

const Action& action_at(const Schedule& schedule, const Simulation& simulation, std::size_t action) {
  const RankId rank = simulation.rank_of(action);
  return schedule.ranks[rank.index()][action - simulation.first[rank.index()]];
}

void check_trace(const Simulation& simulation) {
  MILLRACE_CHECK(simulation.bindings.size() == simulation.actions(), ExitCode::internal, "runtime.schedule",
                 "a simulation without trace, expected simulate(schedule, costs, true)");
}

// The action that ends last.
std::size_t last_action(const Simulation& simulation) {
  for (std::size_t rank = 0; rank + 1 < simulation.first.size(); ++rank) {
    const std::size_t stop = simulation.first[rank + 1];
    if (stop > simulation.first[rank] && simulation.end[stop - 1] == simulation.makespan) return stop - 1;
  }
  return 0;
}

// Adds what lies between an action and its source: first the boundaries' transfers, then the launches.
void add_way(const Schedule& schedule, const Costs& costs, const Simulation& simulation, std::size_t action, std::vector<PathStep>& path) {
  const Binding& binding = simulation.bindings[action];
  double end = simulation.begin[action];
  const auto waiter = static_cast<std::uint32_t>(action);
  if (binding.launches > 0) {
    const double begin = end - binding.launches * costs.launch;
    path.push_back({PathStep::Kind::launch, waiter, no_edge, binding.launches, std::max(begin, 0.0), end});
    end = begin;
  }
  if (binding.transfers > 0) {
    const auto edge = edge_out_of(schedule.placement, action_at(schedule, simulation, binding.source));
    path.push_back({PathStep::Kind::transfer, waiter, *edge, binding.transfers, simulation.end[binding.source], end});
  }
}

}  // namespace

std::vector<PathStep> critical_path(const Schedule& schedule, const Costs& costs, const Simulation& simulation) {
  check_trace(simulation);
  std::vector<PathStep> path;
  if (simulation.actions() == 0) return path;
  for (std::size_t action = last_action(simulation);;) {
    path.push_back(
        {PathStep::Kind::action, static_cast<std::uint32_t>(action), no_edge, 1, simulation.begin[action], simulation.end[action]});
    add_way(schedule, costs, simulation, action, path);
    if (simulation.bindings[action].bound == Bound::nothing) break;
    action = simulation.bindings[action].source;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

Sensitivity sensitivity(const Schedule& schedule, const Costs& costs, const Simulation& simulation) {
  Sensitivity result;
  result.stages.assign(costs.stages.size(), {0, 0, 0, 0});
  result.pairs.assign(costs.pairs.size(), 0);
  result.links.resize(edges_of(schedule.placement).size());
  const PairTable pairs(costs.pairs, schedule.placement.stages());
  for (const PathStep& step : critical_path(schedule, costs, simulation)) {
    if (step.kind == PathStep::Kind::launch) result.launch += step.count;
    if (step.kind == PathStep::Kind::transfer) {
      result.links[step.edge.index()].latency += 1;
      result.links[step.edge.index()].occupancy += step.count;
    }
    if (step.kind != PathStep::Kind::action) continue;
    const RankId rank = simulation.rank_of(step.action);
    const auto& list = schedule.ranks[rank.index()];
    std::size_t index = step.action - simulation.first[rank.index()];
    if (index > 0 && list[index - 1].overlaps_next) --index;
    const bool paired = list[index].overlaps_next;
    const int pair = paired ? pairs.find(list[index], list[index + 1]) : -1;
    if (pair >= 0) result.pairs[static_cast<std::size_t>(pair)] += costs.noise.factor(rank, list[index]);
    for (std::size_t half = index; pair < 0 && half <= index + (paired ? 1 : 0); ++half) {
      result.stages[list[half].stage.index()].of(list[half].kind) += costs.noise.factor(rank, list[half]);
    }
  }
  return result;
}

}  // namespace millrace::runtime
