#include "actors/planning/model_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <exception>
#include <memory>
#include <thread>

#include "actors/planning/cost_probe.hpp"
#include "cluster/host/host_cores.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/device_context.hpp"
#include "runtime/median.hpp"

namespace millrace::actors {
namespace {

using runtime::Pass;

double& cost_of(runtime::StageCost& cost, Pass pass) {
  switch (pass) {
    case Pass::input_gradient:
      return cost.input_gradient;
    case Pass::weight_gradient:
      return cost.weight_gradient;
    case Pass::backward:
      return cost.backward;
    default:
      return cost.forward;
  }
}

/// Embedding, a layer of each kind, head.
struct PartCosts {
  runtime::StageCost embedding = {};
  std::vector<runtime::StageCost> kinds = {};
  runtime::StageCost head = {};

  [[nodiscard]] runtime::LayerCosts spread(const std::vector<std::size_t>& kinds_of_layers) const {
    runtime::LayerCosts costs{embedding, {}, head};
    for (const std::size_t kind : kinds_of_layers) costs.layers.push_back(kinds.at(kind));
    return costs;
  }
};

std::size_t number_of_kinds(const std::vector<std::size_t>& kinds) { return *std::ranges::max_element(kinds) + 1; }

struct ProbeTimes {
  std::vector<PassTimes> passes;
  std::vector<std::vector<double>> updates;  // by part
};

/// Runs the same passes and updates on `ranks` ranks of this machine, all computing at once.
ProbeTimes run_beside(const ModelParts& parts, const actors::PlanRequest& request, runtime::BackwardMode mode, int threads, int ranks,
                      int repeats) {
  std::vector<std::unique_ptr<CostProbe>> busy;
  const auto& type = kernels::device_type(request.device);
  if (type.facts().numbered) {
    // Planned ranks do not share a device: each runs alone on one, and there are as many as devices.
    const auto devices = type.devices();
    MILLRACE_CHECK(!devices.empty(), ExitCode::config, "tools.model_costs", "device = \"{}\", but {}", type.facts().name,
                   type.why_unavailable());
    for (const auto& each : devices)
      if (busy.size() < static_cast<std::size_t>(ranks))
        busy.push_back(std::make_unique<CostProbe>(parts, request, mode, threads, each.device));
  } else {
    for (int rank = 0; rank < ranks; ++rank) busy.push_back(std::make_unique<CostProbe>(parts, request, mode, threads));
  }
  std::vector<ProbeTimes> times(busy.size());
  std::vector<std::exception_ptr> errors(busy.size());
  std::barrier together(static_cast<std::ptrdiff_t>(busy.size()));
  {
    std::vector<std::jthread> threads_of_ranks;
    for (std::size_t rank = 0; rank < busy.size(); ++rank) {
      threads_of_ranks.emplace_back([&, rank] {
        together.arrive_and_wait();
        try {
          times[rank].passes = busy[rank]->run(repeats);
          times[rank].updates = busy[rank]->run_updates(repeats);
        } catch (...) {
          errors[rank] = std::current_exception();
        }
      });
    }
  }
  ProbeTimes all{{}, std::vector<std::vector<double>>(parts.size())};
  for (std::size_t rank = 0; rank < busy.size(); ++rank) {
    if (errors[rank]) std::rethrow_exception(errors[rank]);
    all.passes.insert(all.passes.end(), times[rank].passes.begin(), times[rank].passes.end());
    for (std::size_t part = 0; part < parts.size(); ++part)
      all.updates[part].insert(all.updates[part].end(), times[rank].updates[part].begin(), times[rank].updates[part].end());
  }
  return all;
}

/// Takes the median over all ranks, microbatches and, for a kind of layers, the parts of that kind. `kinds`: those of all layers.
void take(PartCosts& costs, const ModelParts& parts, const std::vector<std::size_t>& kinds, const std::vector<PassTimes>& times,
          Pass pass) {
  std::vector<double> embedding, head;
  std::vector<std::vector<double>> layers(costs.kinds.size());
  for (const auto& of : times) {
    if (of.pass != pass) continue;
    const bool first = of.part == 0, last = of.part + 1 == parts.size();
    auto& runs = first ? embedding : last ? head : layers[kinds[static_cast<std::size_t>(parts.layout[of.part].first_layer)]];
    runs.insert(runs.end(), of.runs.begin(), of.runs.end());
  }
  cost_of(costs.embedding, pass) = runtime::median(embedding);
  for (std::size_t kind = 0; kind < layers.size(); ++kind) cost_of(costs.kinds[kind], pass) = runtime::median(layers[kind]);
  cost_of(costs.head, pass) = runtime::median(head);
}

/// The same for the updates.
void take_updates(PartCosts& costs, const ModelParts& parts, const std::vector<std::size_t>& kinds,
                  const std::vector<std::vector<double>>& times) {
  costs.embedding.update = runtime::median(times.front());
  costs.head.update = runtime::median(times.back());
  for (std::size_t part = 1; part + 1 < parts.size(); ++part)
    costs.kinds[kinds[static_cast<std::size_t>(parts.layout[part].first_layer)]].update = runtime::median(times[part]);
}

}  // namespace

ModelCosts flop_costs(const actors::PlanRequest& request) {
  using Kind = runtime::ProgramKind;
  const std::vector<std::size_t> kinds = kinds_of_layers(request.model);
  const ModelParts parts = parts_of(request, layers_of_every_kind(kinds, 1));
  const auto cost = [&](std::size_t part) {
    const auto flops = [&](Kind kind) { return parts.programs[part].cost(kind).flops / 1e9; };
    return runtime::StageCost{.forward = flops(Kind::forward),
                              .input_gradient = flops(Kind::input_gradient),
                              .weight_gradient = flops(Kind::weight_gradient),
                              .backward = flops(Kind::backward)};
  };
  PartCosts costs{cost(0), {}, cost(parts.size() - 1)};
  for (std::size_t part = 1; part + 1 < parts.size(); ++part) costs.kinds.push_back(cost(part));
  return {costs.spread(kinds), "GFLOP", "the programs' FLOPs"};
}

ModelCosts measured_costs(const actors::PlanRequest& request, int threads, int repeats) {
  const auto cores = static_cast<std::int64_t>(cluster::usable_cores());
  const int ranks = static_cast<int>(std::clamp<std::int64_t>(cores / threads, 1, request.pipeline.ranks * request.mesh.copies()));
  // Two layers of a kind alternate, so that the weights of neither are still in the cache from its previous pass.
  const std::vector<std::size_t> kinds = kinds_of_layers(request.model);
  const ModelParts parts = parts_of(request, layers_of_every_kind(kinds, 2));
  PartCosts costs{.kinds = std::vector<runtime::StageCost>(number_of_kinds(kinds))};
  const auto split = run_beside(parts, request, runtime::BackwardMode::split, threads, ranks, repeats);
  for (const Pass pass : {Pass::forward, Pass::input_gradient, Pass::weight_gradient}) take(costs, parts, kinds, split.passes, pass);
  const auto fused = run_beside(parts, request, runtime::BackwardMode::fused, threads, ranks, repeats);
  take(costs, parts, kinds, fused.passes, Pass::backward);
  take_updates(costs, parts, kinds, fused.updates);
  return {costs.spread(kinds), "ms",
          fmt::format("measured here, median of {} rounds on {} threads, {} ranks at once", repeats, threads, ranks)};
}

}  // namespace millrace::actors
