#include "actors/planning/model_costs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "actors/planning/cost_probe.hpp"
#include "actors/planning/cost_samples.hpp"
#include "cluster/host/busy_processes.hpp"
#include "cluster/host/host_cores.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/device_context.hpp"
#include "kernels/base/system_refusal.hpp"

namespace millrace::actors {
namespace {

using runtime::Pass;

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
  std::vector<std::vector<CostSample>> updates;  // by part
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
  // A rank whose thread is refused would be waited for at the barrier.
  check_threads_start(static_cast<int>(busy.size()), "tools.model_costs", "the measurement");
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
  ProbeTimes all{{}, std::vector<std::vector<CostSample>>(parts.size())};
  for (std::size_t rank = 0; rank < busy.size(); ++rank) {
    if (errors[rank]) std::rethrow_exception(errors[rank]);
    all.passes.insert(all.passes.end(), times[rank].passes.begin(), times[rank].passes.end());
    for (std::size_t part = 0; part < parts.size(); ++part)
      all.updates[part].insert(all.updates[part].end(), times[rank].updates[part].begin(), times[rank].updates[part].end());
  }
  return all;
}

/// The samples of embedding, kinds of layers and head, over all ranks, microbatches and parts of a kind. `kinds`: those of all layers.
class Samples {
 public:
  Samples(const ModelParts& parts, const std::vector<std::size_t>& kinds) : parts_(parts), kinds_(kinds) {
    const auto layers = number_of_kinds(kinds);
    samples_.resize(layers + 2);
    samples_.front().name = "embedding";
    for (std::size_t kind = 0; kind < layers; ++kind)
      samples_[kind + 1].name = layers == 1 ? "layer" : fmt::format("layer {}", std::ranges::find(kinds, kind) - kinds.begin());
    samples_.back().name = "head";
  }

  void add(const ProbeTimes& times, bool with_updates) {
    for (const auto& of : times.passes) append(place(of.part).passes[static_cast<std::size_t>(action_of(of.pass))], of.runs);
    if (!with_updates) return;
    for (std::size_t part = 0; part < parts_.size(); ++part) append(place(part).updates, times.updates[part]);
  }
  [[nodiscard]] std::vector<PartSamples> taken() && { return std::move(samples_); }

 private:
  [[nodiscard]] static runtime::ActionKind action_of(Pass pass) {
    switch (pass) {
      case Pass::input_gradient:
        return runtime::ActionKind::input_gradient;
      case Pass::weight_gradient:
        return runtime::ActionKind::weight_gradient;
      case Pass::backward:
        return runtime::ActionKind::backward;
      default:
        return runtime::ActionKind::forward;
    }
  }
  static void append(std::vector<CostSample>& samples, const std::vector<CostSample>& more) {
    samples.insert(samples.end(), more.begin(), more.end());
  }
  [[nodiscard]] PartSamples& place(std::size_t part) {
    if (part == 0) return samples_.front();
    if (part + 1 == parts_.size()) return samples_.back();
    return samples_[1 + kinds_[static_cast<std::size_t>(parts_.layout[part].first_layer)]];
  }

  const ModelParts& parts_;
  const std::vector<std::size_t>& kinds_;
  std::vector<PartSamples> samples_;
};

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
  return {costs.spread(kinds), "GFLOP", "the programs' FLOPs", ""};
}

ModelCosts measured_costs(const actors::PlanRequest& request, int threads, int repeats) {
  const auto files = cluster::HostFiles::of_this_host();
  const auto cores = static_cast<std::int64_t>(cluster::usable_cores());
  const int ranks = static_cast<int>(std::clamp<std::int64_t>(cores / threads, 1, request.pipeline.ranks * request.mesh.copies()));
  // Two layers of a kind alternate, so that the weights of neither are still in the cache from its previous pass.
  const std::vector<std::size_t> kinds = kinds_of_layers(request.model);
  const ModelParts parts = parts_of(request, layers_of_every_kind(kinds, 2));
  const auto before = cluster::ProcessorTimes::now(files, getpid(), std::chrono::steady_clock::now());
  const auto judged = judge_costs([&] {
    Samples samples(parts, kinds);
    auto split = run_beside(parts, request, runtime::BackwardMode::split, threads, ranks, repeats);
    // Forwards of the split mode count; what the fused mode is for is its backward.
    samples.add(split, false);
    auto fused = run_beside(parts, request, runtime::BackwardMode::fused, threads, ranks, repeats);
    std::erase_if(fused.passes, [](const PassTimes& times) { return times.pass != Pass::backward; });
    samples.add(fused, true);
    return std::move(samples).taken();
  });
  PartCosts costs{judged.parts.front(), {judged.parts.begin() + 1, judged.parts.end() - 1}, judged.parts.back()};
  ModelCosts result{costs.spread(kinds), "ms",
                    fmt::format("measured here, {} of {} on {}, {} at once", judged.least ? "least" : "median",
                                counted(judged.measurements * repeats, "round"), counted(threads, "thread"), counted(ranks, "rank")),
                    ""};
  const auto others = cluster::ProcessorTimes::now(files, getpid(), std::chrono::steady_clock::now()).since(before);
  if (!judged.doubt.empty())
    result.doubt = fmt::format("{}, in {}; {}", judged.doubt, counted(judged.measurements, "measurement"), busy_text(others));
  // Passes that are shorter than a time slice look undisturbed one by one, and a thread that waits for one without a core spins: the clocks
  // of the samples miss programs that are busy all the time, and these are measured by what they use.
  else if (!kernels::device_type(request.device).facts().numbered)
    result.doubt = cluster::crowded_text(others, ranks * threads, cluster::host_core_count());
  return result;
}

}  // namespace millrace::actors
