#include "layers/models/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <unordered_map>

#include "kernels/base/check.hpp"
#include "layers/attention/indexer.hpp"
#include "layers/models/boundary.hpp"
#include "layers/models/model_family.hpp"
#include "layers/models/mtp.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

using runtime::ForwardProgram;
using runtime::ProgramBuilder;
using runtime::Role;

StageLayout whole_model(const ModelConfig& config) { return uniform_layout(chain_of(config), 1).front(); }

/// The name of what receives the streams before layer `index`, in messages.
std::string receiver(int index, const ModelSpec& model) {
  if (index == static_cast<int>(model.layers.size())) return "the head";
  const int layers = model.decoder_layers();
  return index < layers ? fmt::format("layer {}", index) : fmt::format("prediction module {}", index - layers + 1);
}

ProgramBuilder builder_of(const StageOptions& options) {
  return ProgramBuilder({.compute = options.compute,
                         .rows = options.rows,
                         .sequence = options.sequence,
                         .one_segment = options.one_segment,
                         .experts = options.experts,
                         .observe_scores = options.losses.qk_clip});
}

Streams detached(ProgramBuilder& builder, const Streams& x) {
  Streams constants;
  for (const auto& [name, value] : x.all()) constants.set(name, runtime::detach(builder, value, runtime::port_value_name("detach", name)));
  return constants;
}

/// The part of layer `index` that this stage has.
LayerPart part_of(const StageLayout& stage, int index) {
  if (stage.starts_with_ffn && index == stage.first_layer) return LayerPart::ffn;
  return stage.ends_with_attention && index + 1 == stage.first_layer + stage.layer_count ? LayerPart::attention : LayerPart::whole;
}

/// Between the halves of a layer is the residual stream, and nothing else.
void check_divided(const ModelFamily& family, const ModelSpec& model, int index, const ProgramBuilder& builder) {
  for (const int at : {index, index + 1})
    for (const StreamType& stream : streams_before(family, model, at, builder))
      MILLRACE_CHECK(
          stream.name == runtime::hidden_port, ExitCode::model, "layers.model",
          "{}: layer {} receives or hands on {} beside the residual stream, expected pipeline.layout with this layer whole (t) instead "
          "of a and f",
          family.traits().name, index, stream.name);
}

/// Statistics of the residual stream that a layer hands on. A model without one has none.
void observe_activation(ProgramBuilder& builder, const Streams& streams) {
  for (const auto& [name, value] : streams.all())
    if (name == runtime::hidden_port) builder.observe(runtime::activation_name, runtime::moments(builder, value, "moments"));
}

ForwardProgram stage_program(const ModelFamily& family, ModelSpec model, const StageLayout& stage, const StageOptions& options) {
  model.losses = options.losses;
  const auto chain = static_cast<int>(model.layers.size());
  const bool fits = stage.first_layer >= 0 && stage.layer_count >= 0 && stage.modules >= 0 && stage.end() <= chain &&
                    (stage.layer_count == 0 || stage.first_layer + stage.layer_count <= model.decoder_layers()) &&
                    (stage.modules == 0 || stage.end() - stage.modules >= model.decoder_layers());
  MILLRACE_CHECK(fits, ExitCode::internal, "layers.model", "a stage from {} of {} layers and {} modules, the model has {} and {}",
                 stage.first_layer, stage.layer_count, stage.modules, model.decoder_layers(), model.modules);
  int first = stage.first_layer, end = stage.end();
  if (options.output == Output::logits) {
    // Nothing would read what indexers and further modules lose.
    model.losses.indexer_loss = 0;
    remove_mtp(model);
    first = std::min(first, model.decoder_layers()), end = std::min(end, model.decoder_layers());
  }
  ProgramBuilder builder = builder_of(options);
  builder.enter(-1, "");
  Streams x;
  if (stage.embedding) {
    x = hand_on(builder, family.embed(builder, model), streams_before(family, model, 0, builder), "the embedding", receiver(0, model));
  } else {
    x = receive(builder, streams_before(family, model, first, builder));
  }
  for (int index = first; index < end; ++index) {
    const int module = index - model.decoder_layers() + 1;
    builder.enter(index, module < 1 ? fmt::format("layers.{}", index) : mtp_scope(module));
    const LayerPart part = part_of(stage, index);
    if (part != LayerPart::whole) check_divided(family, model, index, builder);
    const Streams made = module < 1 ? family.layer_part(builder, model, index, part, x)
                                    : mtp_module(builder, family.multi_token_prediction(), model, module, x);
    x = hand_on(builder, made, streams_before(family, model, index + 1, builder), receiver(index, model), receiver(index + 1, model));
    if (options.internal_metrics && part != LayerPart::attention) observe_activation(builder, x);
  }
  builder.enter(-1, "");
  if (!stage.head) {
    // A stage without layers copies its inputs to its outputs, since it receives and sends in different rings.
    const bool empty = !stage.embedding && first == end;
    for (const auto& [name, value] : x.all())
      builder.set_boundary_out(name, empty ? runtime::copy(builder, value, runtime::port_value_name("copy", name)) : value);
  } else if (options.output == Output::logits) {
    builder.set_logits(family.head(builder, model, x, true));
  } else {
    // Where indexers are warmed up, nothing is trained by the loss of the language model.
    if (model.losses.indexer_warmup) x = detached(builder, x);
    const runtime::LossTerm term{.name = "lm_loss", .evaluation_only = model.losses.indexer_warmup};
    if (model.modules > 0)
      mtp_losses(builder, family.multi_token_prediction(), model, x, term);
    else
      builder.loss_term(term, family.head(builder, model, x, false));
  }
  return builder.finish();
}

/// A stage's parameters, collected from its program: layers declare them, and there is no other list.
std::vector<ParameterSpec> declared(const ModelConfig& config, const StageLayout& stage, const runtime::LossWeights& losses,
                                    const runtime::ExpertGroup& experts = {}) {
  const ModelFamily& family = family_of(config);
  const ModelSpec model = resolve(config);
  const ForwardProgram program = stage_program(family, model, stage, {.losses = losses, .experts = experts});
  std::vector<ParameterSpec> specs;
  for (const runtime::Value& value : program.values) {
    if (value.role != Role::parameter) continue;
    specs.push_back({.name = value.name,
                     .shape = value.type.shape,
                     .layer = value.layer,
                     .use = value.use,
                     .initial = family.initial(model, value.name, runtime::whole_shape(value.type.shape, value.experts)),
                     .stored = value.stored,
                     .active = value.active,
                     .experts = value.experts,
                     .router = value.router,
                     .scores = value.scores,
                     .trained = value.trained && (!losses.indexer_warmup || is_of_indexer(value.name))});
  }
  return specs;
}

}  // namespace

ModelSpec resolve(const ModelConfig& config) { return family_of(config).resolve(config); }

ForwardProgram build_stage(const ModelConfig& config, const StageLayout& stage, const StageOptions& options) {
  return stage_program(family_of(config), resolve(config), stage, options);
}

std::vector<runtime::ValueType> boundary_types(const ModelConfig& config, int layer, const StageOptions& options) {
  std::vector<runtime::ValueType> types;
  for (const StreamType& stream : streams_before(family_of(config), resolve(config), layer, builder_of(options)))
    types.push_back(stream.type);
  return types;
}

std::vector<ParameterSpec> model_parameters(const ModelConfig& config, const runtime::LossWeights& losses) {
  std::vector<ParameterSpec> specs;
  std::set<std::string> seen;
  for (ParameterSpec& spec : declared(config, whole_model(config), losses)) {
    if (!seen.insert(spec.name).second) continue;
    spec.order = static_cast<int>(specs.size());
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<ParameterSpec> parameters(const ModelConfig& config, const StageLayout& stage, const runtime::LossWeights& losses,
                                      const runtime::ExpertGroup& experts) {
  return parameters(model_parameters(config, losses), config, stage, losses, experts);
}

std::vector<ParameterSpec> parameters(const std::vector<ParameterSpec>& model, const ModelConfig& config, const StageLayout& stage,
                                      const runtime::LossWeights& losses, const runtime::ExpertGroup& experts) {
  std::vector<ParameterSpec> specs = declared(config, stage, losses, experts);
  std::unordered_map<std::string_view, int> orders;
  for (const ParameterSpec& other : model) orders.insert_or_assign(other.name, other.order);
  for (ParameterSpec& spec : specs)
    if (const auto order = orders.find(spec.name); order != orders.end()) spec.order = order->second;
  // A group of ranks computes some parts of a layer in another order than one rank does.
  if (experts.members > 1) {
    const std::vector<ParameterSpec> alone = declared(config, stage, losses);
    const auto place = [&](const ParameterSpec& spec) {
      const auto same = [&](const ParameterSpec& other) { return other.name == spec.name && other.use == spec.use; };
      return std::ranges::find_if(alone, same) - alone.begin();
    };
    std::ranges::stable_sort(specs, {}, place);
  }
  return specs;
}

std::optional<std::int64_t> longest_row(const ModelConfig& config) {
  const ModelSpec model = resolve(config);
  std::optional<std::int64_t> longest;
  for (const std::int64_t positions : {model.learned_positions, model.rotary_positions})
    if (positions > 0) longest = std::min(positions, longest.value_or(positions));
  return longest;
}

ParameterCounts parameter_counts(std::span<const ParameterSpec> parameters) {
  ParameterCounts counts;
  double active = 0;
  for (const ParameterSpec& spec : parameters) {
    counts.all += spec.shape.elements();
    active += spec.active * static_cast<double>(spec.shape.elements());
  }
  counts.active = std::llround(active);
  return counts;
}

std::int64_t count_parameters(const ModelConfig& config) { return parameter_counts(model_parameters(config)).all; }

std::vector<std::string> known_labels(const ModelConfig& config) {
  StageLayout layers = whole_model(config);
  layers.embedding = layers.head = false;
  const ForwardProgram program = build_stage(config, layers, {});
  std::set<std::string> labels;
  for (const runtime::Value& value : program.values) labels.insert(value.labels.begin(), value.labels.end());
  return {labels.begin(), labels.end()};
}

}  // namespace millrace::layers
