#include "tools/planning/model_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "kernels/base/thread_team.hpp"
#include "layers/model.hpp"
#include "runtime/engine/straight_loop.hpp"
#include "runtime/program/differentiate.hpp"

namespace millrace::tools {
namespace {

std::string join(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ",")); }

/// The three parts as stages of a model of one layer.
struct Parts {
  layers::ModelConfig model;
  std::vector<layers::StageLayout> layout;
  std::vector<runtime::ProgramSet> programs;
};

Parts parts_of(const actors::PlanRequest& request) {
  Parts parts;
  parts.model = request.model;
  parts.model.layers = 1;
  parts.layout = layers::parse_layout("E | t | H", 1, 3);
  const auto policy = runtime::RematerializationPolicy::parse(join(request.rematerialize.policy), layers::known_labels(parts.model));
  layers::StageOptions options;
  options.compute = runtime::compute_dtype(request.train);
  options.rows = request.train.batch;
  options.sequence = request.train.sequence;
  options.z_loss = request.train.z_loss;
  for (const auto& stage : parts.layout)
    parts.programs.push_back(runtime::differentiate(layers::build_stage(parts.model, stage, options), policy));
  return parts;
}

runtime::LayerCosts spread(const std::array<runtime::StageCost, 3>& costs, std::int64_t layers) {
  return {costs[0], std::vector<runtime::StageCost>(static_cast<std::size_t>(layers), costs[1]), costs[2]};
}

/// One kind of backward needs one plan of memory: the parts on a rank of their own, with the slots that they run on.
class Bench {
 public:
  Bench(const Parts& parts, const actors::PlanRequest& request, runtime::BackwardMode mode, int threads)
      : team_(threads), stream_(team_), loop_(stages_of(parts), options_of(request, mode, threads)) {
    fill(request);
  }

  /// The median in milliseconds.
  double time(std::size_t part, runtime::Pass pass, int repeats) {
    auto& rank = loop_.rank();
    const auto ring = [&](runtime::MemoryKind kind, std::size_t receiver) {
      return receiver < rank.stages().size() ? rank.memory().slot_or_null(kind, rank.stages()[receiver]->stage()) : nullptr;
    };
    runtime::ExecutionSlots slots;
    slots.token_in = ring(runtime::MemoryKind::token_in, part);
    slots.token_out = ring(runtime::MemoryKind::token_in, part + 1);
    slots.gradient_in = ring(runtime::MemoryKind::gradient_in, part);
    slots.gradient_out = part > 0 ? ring(runtime::MemoryKind::gradient_in, part - 1) : nullptr;
    std::vector<double> times;
    for (int run = 0; run <= repeats; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      rank.stages()[part]->run(pass, stream_, slots);
      const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
      if (run > 0) times.push_back(taken.count());  // the first touches memory for the first time
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    return times[times.size() / 2];
  }

 private:
  static std::vector<runtime::RankStage> stages_of(const Parts& parts) {
    std::vector<runtime::RankStage> stages;
    for (std::size_t part = 0; part < parts.layout.size(); ++part) {
      runtime::RankStage stage;
      stage.stage = runtime::StageId(static_cast<int>(part));
      stage.training = parts.programs[part];
      for (const auto& spec : layers::parameters(parts.model, parts.layout[part]))
        stage.parameters.push_back({spec.name, spec.shape, stage.stage, spec.use, spec.order, spec.shape.rank() >= 2, false});
      stages.push_back(std::move(stage));
    }
    return stages;
  }

  static runtime::RankOptions options_of(const actors::PlanRequest& request, runtime::BackwardMode mode, int threads) {
    runtime::RankOptions options;
    options.compute = runtime::compute_dtype(request.train);
    options.mode = mode;
    options.threads = threads;
    return options;
  }

  /// Tokens that go all over the table, as real ones do. The weights stay zero: no kernel's time depends on them.
  void fill(const actors::PlanRequest& request) {
    const auto batch = loop_.rank().batch(0);
    const auto vocabulary = static_cast<std::size_t>(request.model.vocab_size);
    const auto sequence = static_cast<std::size_t>(request.train.sequence);
    for (std::size_t place = 0; place < batch.tokens.size(); ++place) {
      batch.tokens[place] = static_cast<std::int32_t>(place * 7919 % vocabulary);
      batch.targets[place] = static_cast<std::int32_t>((place + 1) * 7919 % vocabulary);
      batch.positions[place] = static_cast<std::int32_t>(place % sequence);
      batch.segments[place] = 1;
    }
    loop_.rank().set_loss_scale(1.0F / static_cast<float>(batch.tokens.size()));
  }

  kernels::ThreadTeam team_;
  kernels::Stream stream_;
  runtime::StraightLoop loop_;
};

}  // namespace

ModelCosts flop_costs(const actors::PlanRequest& request) {
  using Kind = runtime::ProgramKind;
  const Parts parts = parts_of(request);
  std::array<runtime::StageCost, 3> costs;
  for (std::size_t part = 0; part < costs.size(); ++part) {
    const auto flops = [&](Kind kind) { return parts.programs[part].cost(kind).flops / 1e9; };
    costs[part] = {flops(Kind::forward), flops(Kind::input_gradient), flops(Kind::weight_gradient), flops(Kind::backward)};
  }
  return {spread(costs, request.model.layers), "GFLOP", "the programs' FLOPs"};
}

ModelCosts measured_costs(const actors::PlanRequest& request, int threads, int repeats) {
  using runtime::Pass;
  const Parts parts = parts_of(request);
  std::array<runtime::StageCost, 3> costs;
  {
    Bench split(parts, request, runtime::BackwardMode::split, threads);
    for (std::size_t part = 0; part < costs.size(); ++part) {
      costs[part].forward = split.time(part, Pass::forward, repeats);
      costs[part].input_gradient = split.time(part, Pass::input_gradient, repeats);
      costs[part].weight_gradient = split.time(part, Pass::weight_gradient, repeats);
    }
  }
  Bench fused(parts, request, runtime::BackwardMode::fused, threads);
  for (std::size_t part = 0; part < costs.size(); ++part) {
    static_cast<void>(fused.time(part, Pass::forward, 1));  // what the backward reads
    costs[part].backward = fused.time(part, Pass::backward, repeats);
  }
  return {spread(costs, request.model.layers), "ms", fmt::format("measured here, median of {} on {} threads", repeats, threads)};
}

}  // namespace millrace::tools
