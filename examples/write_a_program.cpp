// One idea: write the forward, and everything else is derived from it.
//
// The model is the smallest that can learn something: an embedding, a norm, a gated MLP with a residual connection, and a head
// with its loss. We write it with the builder, derive its backward, print both programs with the memory they will use, run them,
// and compare one gradient with a finite difference.

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "kernels/base/thread_team.hpp"
#include "runtime/engine/sequential_trainer.hpp"
#include "runtime/passes/differentiate.hpp"
#include "runtime/program/operations.hpp"
#include "runtime/program/print.hpp"

using namespace millrace;

namespace {

constexpr std::int64_t vocabulary = 16, width = 8, hidden = 24;
constexpr std::int64_t rows = 2, sequence = 8, tokens = rows * sequence;

/// The forward as the author of a layer writes it: operations appended one after another, weights declared by name.
runtime::ForwardProgram write_forward() {
  runtime::ProgramBuilder builder({kernels::DType::f32, rows, sequence});
  const auto table = builder.parameter("table.weight", {vocabulary, width});
  const auto x = runtime::embedding(builder, builder.batch("tokens"), table, "table");

  builder.enter(0, "block");  // from here on names start with "block."
  const auto normed = runtime::rms_norm(builder, x, builder.parameter("block.norm.weight", {width}, runtime::in_f32), {1e-6F}, "norm");
  const auto gate = runtime::linear(builder, normed, builder.parameter("block.gate.weight", {hidden, width}), "gate");
  const auto up = runtime::linear(builder, normed, builder.parameter("block.up.weight", {hidden, width}), "up");
  const auto gated = runtime::swiglu(builder, gate, up, "swiglu");
  const auto down = runtime::linear(builder, gated, builder.parameter("block.down.weight", {width, hidden}), "down");
  builder.label(gate, "mlpwi_0");  // a rematerialisation policy can refer to this label
  const auto y = runtime::add(builder, x, down, "residual");

  builder.enter(-1, "");
  const auto head = builder.parameter("head.weight", {vocabulary, width});
  builder.loss_term({.name = "lm_loss"}, runtime::linear_cross_entropy(builder, y, head, builder.batch("targets"), {}, "loss"));
  return builder.finish();
}

/// Weights between -0.5 and 0.5, norm scales of 1.
void fill_weights(const runtime::StageShard& shard) {
  for (const auto& tensor : shard.tensors()) {
    unsigned state = static_cast<unsigned>(tensor.order) + 1;
    for (float& element : shard.master(tensor.name)) {
      state = state * 1664525U + 1013904223U;
      element = tensor.shape.rank() == 1 ? 1.0F : static_cast<float>(state >> 8) / static_cast<float>(1U << 24) - 0.5F;
    }
  }
}

/// The token after t is 3 t + 1.
void fill_batch(std::int64_t, const runtime::BatchView& batch) {
  for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t) {
    batch.tokens[t] = static_cast<std::int32_t>(t * 5 % vocabulary);
    batch.positions[t] = static_cast<std::int32_t>(t % sequence);
    batch.segments[t] = 1;
    batch.targets[t] = (3 * batch.tokens[t] + 1) % vocabulary;
  }
}

}  // namespace

int main() {
  const auto programs = runtime::differentiate(write_forward(), runtime::RematerializationPolicy::parse("none", {"mlpwi_0"}));

  // A rank with this single stage: the place of every weight and intermediate is known before anything is allocated.
  std::vector<runtime::RankStage> stages;
  stages.push_back({runtime::StageId(0), programs, std::nullopt, runtime::parameters_of(programs, runtime::StageId(0)), {}});
  runtime::SequentialTrainer loop(std::move(stages), {});
  const auto& runner = loop.rank().stage(runtime::StageId(0));
  fmt::print("{}\n", runtime::print(programs, runtime::ProgramKind::forward, runner.plan()));
  fmt::print("{}\n", runtime::print(programs, runtime::ProgramKind::backward, runner.plan()));
  fmt::print("{}\n", loop.rank().memory().plan().print());

  kernels::ThreadTeam team(1);
  const kernels::ExecutionContext context(team);
  const auto& shard = runner.shard();
  fill_weights(shard);
  shard.refresh_copies(context);  // updates the weights packed for matrix products, which programs read instead of the masters
  shard.zero_accumulators(context);
  const auto sums = loop.accumulate(context, 1, tokens, fill_batch);
  const auto& weight = shard.layout().at("block.down.weight");
  const float gradient = shard.gradient(weight).as<float>()[0];

  // The same derivative, measured: the loss at slightly larger and slightly smaller values.
  const auto loss_at = [&](float step) {
    float& element = shard.master("block.down.weight")[0];
    const float before = std::exchange(element, element + step);
    shard.refresh_copies(context);
    const double loss = loop.evaluate(context, 1, fill_batch).mean().total;
    element = before;
    return loss;
  };
  constexpr float step = 1e-2F;
  const double measured = (loss_at(step) - loss_at(-step)) / (2.0 * step);
  fmt::print("loss {:.6f}; gradient of block.down.weight[0, 0]: {:.6f} derived, {:.6f} measured\n", sums.mean().total, gradient, measured);
  return std::abs(gradient - measured) < 1e-4 ? 0 : 1;
}
