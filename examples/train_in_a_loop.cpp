// One idea: the simplest trainer possible. It trains a Llama in one stage on one rank, without actors, schedule or links; a
// pipeline of any shape computes the same bits as this loop.

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "kernels/base/thread_team.hpp"
#include "layers/initial_values.hpp"
#include "layers/models/model.hpp"
#include "runtime/engine/sequential_trainer.hpp"
#include "runtime/passes/differentiate.hpp"

using namespace millrace;

namespace {

constexpr std::int64_t rows = 4, sequence = 32, tokens = rows * sequence, microbatches = 2;
constexpr std::string_view text =
    "the mill turns as long as water runs through the race, and the race runs as long as the mill turns the grain to meal. ";

layers::ModelConfig small_llama() {
  layers::ModelConfig model;
  model.vocab_size = 128;  // ASCII
  model.hidden_size = 32;
  model.intermediate_size = 80;
  model.layers = 2;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 8;
  return model;
}

/// The whole model as one stage: programs from the layers, weights by their names in checkpoints.
runtime::RankStage whole_model(const layers::ModelConfig& model) {
  const auto layout = layers::uniform_layout({model.layers, 0}, 1).front();
  const layers::StageOptions options{kernels::DType::f32, rows, sequence};
  auto forward = layers::build_stage(model, layout, options);
  runtime::RankStage stage;
  stage.stage = runtime::StageId(0);
  stage.training = runtime::differentiate(std::move(forward), runtime::RematerializationPolicy::parse("none", layers::known_labels(model)));
  for (const auto& spec : layers::parameters(model, layout))
    stage.parameters.push_back({spec.name, spec.shape, stage.stage, spec.use, spec.order, spec.shape.rank() >= 2});
  return stage;
}

/// Rows begin at different letters of the text; the target of a letter is the next letter.
void fill_batch(std::int64_t microbatch, const runtime::BatchView& batch) {
  for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t) {
    const std::size_t row = t / sequence, column = t % sequence;
    const std::size_t letter = (static_cast<std::size_t>(microbatch) * 53 + row * 17 + column) % text.size();
    batch.tokens[t] = text[letter];
    batch.positions[t] = static_cast<std::int32_t>(column);
    batch.segments[t] = 1;
    batch.targets[t] = text[(letter + 1) % text.size()];
  }
}

}  // namespace

int main() {
  const auto model = small_llama();
  std::vector<runtime::RankStage> stages;
  stages.push_back(whole_model(model));
  runtime::RankOptions options;
  options.optimizer = runtime::make_optimizer({.optimizer = "adamw", .weight_decay = 0});
  runtime::SequentialTrainer loop(std::move(stages), options);
  for (const auto& spec : layers::model_parameters(model))
    layers::initial_values(spec, model.initializer_range, 1, 0, loop.rank().shard_with(spec.name).master(spec.name));

  kernels::ThreadTeam team(1);
  const kernels::ExecutionContext context(team);
  runtime::UpdateScalars scalars{.learning_rate = 1e-2};
  double first = 0, last = 0;
  for (int step = 1; step <= 60; ++step) {
    scalars.update = step;
    const auto result = loop.step(context, microbatches, microbatches * tokens, fill_batch, scalars, 1.0);
    if (step == 1) first = result.loss;
    last = result.loss;
    if (step % 10 == 0 || step == 1) fmt::print("step {:>2}  loss {:.4f}  gradient norm {:.3f}\n", step, result.loss, result.norm);
  }
  return last < first / 2 ? 0 : 1;
}
