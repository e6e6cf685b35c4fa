#include "runtime/schedule/simulator/cost.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/base/check.hpp"
#include "kernels/base/mix.hpp"

namespace millrace::runtime {
namespace {

// A uniform number in (0, 1).
double uniform(std::uint64_t key) { return (static_cast<double>(splitmix(key) >> 11) + 0.5) * 0x1.0p-53; }

// A normal number by the method of Box and Muller (1958).
double normal(std::uint64_t key) {
  return std::sqrt(-2 * std::log(uniform(key))) * std::cos(2 * std::numbers::pi * uniform(splitmix(~key)));
}

}  // namespace

double& StageCost::of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return forward;
    case ActionKind::input_gradient:
      return input_gradient;
    case ActionKind::weight_gradient:
      return weight_gradient;
    case ActionKind::backward:
      return backward;
  }
  return forward;
}

double StageCost::of(ActionKind kind) const { return const_cast<StageCost*>(this)->of(kind); }

std::vector<StageCost> uniform_costs(const Placement& placement, double forward, double input_gradient, double weight_gradient) {
  std::vector<StageCost> costs;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    const auto chunks =
        static_cast<double>(placement.stages_of(placement.rank_of(StageId{stage})).size()) / static_cast<double>(placement.directions());
    costs.push_back({forward / chunks, input_gradient / chunks, weight_gradient / chunks, (input_gradient + weight_gradient) / chunks});
  }
  return costs;
}

std::vector<LinkCost> uniform_links(const Placement& placement, double latency) {
  LinkCost link;
  link.latency = latency;
  return std::vector<LinkCost>(edges_of(placement).size(), link);
}

double Noise::factor(RankId rank, const Action& action) const {
  double factor = slowdown.empty() ? 1 : slowdown.at(rank.index());
  if (jitter > 0) {
    std::uint64_t key = splitmix(seed);
    key = splitmix(key ^ static_cast<std::uint64_t>(action.stage.value));
    key = splitmix(key ^ static_cast<std::uint64_t>(action.kind));
    key = splitmix(key ^ static_cast<std::uint64_t>(action.microbatch.value));
    factor *= std::exp(jitter * normal(key) - jitter * jitter / 2);
  }
  return factor;
}

std::vector<StageShape> shapes_of(const std::vector<StageExchanges>& stages) {
  std::vector<StageShape> shapes;
  for (const StageExchanges& stage : stages) shapes.push_back(stage.shape);
  return shapes;
}

Costs replicate(const Costs& costs, const Placement& placement, int copies) {
  Costs all = costs;
  for (int copy = 1; copy < copies; ++copy) {
    all.transfers.insert(all.transfers.end(), costs.transfers.begin(), costs.transfers.end());
    all.stages.insert(all.stages.end(), costs.stages.begin(), costs.stages.end());
    all.exchanges.insert(all.exchanges.end(), costs.exchanges.begin(), costs.exchanges.end());
    all.noise.slowdown.insert(all.noise.slowdown.end(), costs.noise.slowdown.begin(), costs.noise.slowdown.end());
    for (Stall stall : costs.noise.stalls) {
      stall.rank = RankId(stall.rank.value + copy * placement.ranks());
      all.noise.stalls.push_back(stall);
    }
    for (PairCost pair : costs.pairs) {
      pair.forward = StageId(pair.forward.value + copy * placement.stages());
      pair.backward = StageId(pair.backward.value + copy * placement.stages());
      all.pairs.push_back(pair);
    }
  }
  const auto by_edge = [&](const auto& of_one, auto& of_all) {
    of_all.clear();
    if (of_one.empty()) return;
    for (const Edge& edge : edges_of(Placement::copies_of(placement, copies)))
      of_all.push_back(of_one.at(edge_into(placement, StageId(edge.consumer.value % placement.stages()), edge.kind)->index()));
  };
  by_edge(costs.links, all.links);
  by_edge(costs.slots, all.slots);
  return all;
}

Costs alike(const Costs& costs) {
  Costs result;
  StageCost mean{0, 0, 0, 0};
  for (const StageCost& stage : costs.stages) {
    for (const ActionKind kind : all_action_kinds) mean.of(kind) += stage.of(kind) / static_cast<double>(costs.stages.size());
  }
  result.stages.assign(costs.stages.size(), mean);
  result.pairs = costs.pairs;
  double sum = 0;
  for (const PairCost& pair : costs.pairs) sum += pair.duration;
  for (PairCost& pair : result.pairs) pair.duration = sum / static_cast<double>(costs.pairs.size());
  result.exchanges = costs.exchanges;
  for (StageExchanges& stage : result.exchanges)
    for (SegmentCosts& each : stage.costs) std::ranges::fill(each.exchange, 0.0);
  return result;
}

void check_costs(const Costs& costs, const Placement& placement) {
  constexpr const char* component = "runtime.schedule";
  const auto sized = [](std::size_t found, std::size_t expected, const char* what) {
    MILLRACE_CHECK(found == expected, ExitCode::internal, component, "{} {}, expected {}", found, what, expected);
  };
  const std::size_t edges = edges_of(placement).size();
  sized(costs.stages.size(), static_cast<std::size_t>(placement.stages()), "stage costs");
  if (!costs.links.empty()) sized(costs.links.size(), edges, "link costs");
  if (!costs.exchanges.empty()) sized(costs.exchanges.size(), costs.stages.size(), "stages with exchanges");
  if (!costs.members.empty()) sized(costs.members.size(), static_cast<std::size_t>(placement.ranks()), "groups of ranks");
  if (!costs.transfers.empty()) sized(costs.transfers.size(), static_cast<std::size_t>(placement.ranks()), "ranks with transfers");
  if (!costs.slots.empty()) sized(costs.slots.size(), edges, "ring sizes");
  if (!costs.noise.slowdown.empty()) sized(costs.noise.slowdown.size(), static_cast<std::size_t>(placement.ranks()), "slowdowns");
  MILLRACE_CHECK(costs.issue_ahead >= 1, ExitCode::internal, component, "issue_ahead = {}, expected 1 or more", costs.issue_ahead);
}

}  // namespace millrace::runtime
