#include "layers/model.hpp"

#include <fmt/format.h>

#include <set>

#include "kernels/base/check.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

using runtime::ForwardProgram;
using runtime::ProgramBuilder;
using runtime::Role;
using runtime::ValueId;

StageLayout whole_model(const ModelConfig& config) { return {true, 0, static_cast<int>(config.layers), true}; }

/// A stage's parameters as its program names them: what a layer declares is the only list there is.
std::vector<ParameterSpec> declared(const ModelConfig& config, const StageLayout& stage) {
  const Decoder& decoder = decoder_of(config);
  const ForwardProgram program = build_stage(config, stage, {});
  std::vector<ParameterSpec> specs;
  for (const runtime::Value& value : program.values) {
    if (value.role != Role::parameter) continue;
    specs.push_back(
        {value.name, value.type.shape, value.layer, value.use, decoder.initial(config, value.name, value.type.shape), value.stored, 0});
  }
  return specs;
}

}  // namespace

ForwardProgram build_stage(const ModelConfig& config, const StageLayout& stage, const StageOptions& options) {
  const Decoder& decoder = decoder_of(config);
  MILLRACE_CHECK(config.numerics == decoder.numerics(), ExitCode::model, "layers.model",
                 "model.numerics = \"{}\" with the family {}, expected \"{}\"", config.numerics, config.family, decoder.numerics());
  decoder.validate(config);
  MILLRACE_CHECK(stage.first_layer >= 0 && stage.layer_count >= 0 && stage.first_layer + stage.layer_count <= config.layers,
                 ExitCode::internal, "layers.model", "stage of layers {} to {}, the model has {}", stage.first_layer,
                 stage.first_layer + stage.layer_count, config.layers);
  ProgramBuilder builder({options.compute, options.rows, options.sequence, -1, options.one_segment});
  builder.enter(-1, "");
  ValueId x = stage.embedding ? decoder.embed(builder, config) : builder.boundary_in(config.hidden_size);
  for (int index = stage.first_layer; index < stage.first_layer + stage.layer_count; ++index) {
    builder.enter(index, fmt::format("layers.{}", index));
    x = decoder.layer(builder, config, index, x);
  }
  builder.enter(-1, "");
  if (!stage.head) {
    // An empty stage hands its input on: the ring it sends from is not the one it receives in.
    builder.set_boundary_out(stage.empty() ? runtime::copy(builder, x, "copy") : x);
  } else if (options.output == Output::logits) {
    builder.set_logits(decoder.head(builder, config, x, true, options.z_loss));
  } else {
    builder.set_loss(decoder.head(builder, config, x, false, options.z_loss));
  }
  return builder.finish();
}

std::vector<ParameterSpec> model_parameters(const ModelConfig& config) {
  std::vector<ParameterSpec> specs;
  std::set<std::string> seen;
  for (ParameterSpec& spec : declared(config, whole_model(config))) {
    if (!seen.insert(spec.name).second) continue;
    spec.order = static_cast<int>(specs.size());
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<ParameterSpec> parameters(const ModelConfig& config, const StageLayout& stage) {
  std::vector<ParameterSpec> specs = declared(config, stage);
  const std::vector<ParameterSpec> all = model_parameters(config);
  for (ParameterSpec& spec : specs) {
    for (const ParameterSpec& other : all) {
      if (other.name == spec.name) spec.order = other.order;
    }
  }
  return specs;
}

std::optional<std::int64_t> longest_row(const ModelConfig& config) {
  if (config.family == "gpt2") return config.max_position_embeddings;
  return config.learned_positions > 0 ? std::optional(config.learned_positions) : std::nullopt;
}

std::int64_t count_parameters(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const ParameterSpec& spec : model_parameters(config)) count += spec.shape.elements();
  return count;
}

std::vector<std::string> known_labels(const ModelConfig& config) {
  const ForwardProgram program = build_stage(config, {false, 0, 1, false}, {});
  std::set<std::string> labels;
  for (const runtime::Value& value : program.values) labels.insert(value.labels.begin(), value.labels.end());
  return {labels.begin(), labels.end()};
}

}  // namespace millrace::layers
