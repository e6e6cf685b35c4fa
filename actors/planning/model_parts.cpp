#include "actors/planning/model_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "runtime/passes/differentiate.hpp"

namespace millrace::actors {

ModelParts parts_of(const actors::PlanRequest& request, const std::vector<int>& layers) {
  ModelParts parts;
  parts.model = request.model;
  const layers::ChainLength chain = layers::chain_of(request.model);
  parts.layout.push_back({true, 0, 0, false});
  for (const int layer : layers)
    parts.layout.push_back(layer < chain.layers ? layers::StageLayout{false, layer, 1, false}
                                                : layers::StageLayout{false, layer, 0, false, 1});
  parts.layout.push_back({false, static_cast<int>(chain.all()), 0, true});
  const auto policy = runtime::RematerializationPolicy::parse(fmt::format("{}", fmt::join(request.rematerialize.policy, ",")),
                                                              layers::known_labels(parts.model));
  layers::StageOptions options;
  options.compute = runtime::compute_dtype(request.train);
  options.rows = request.train.batch;
  options.sequence = request.train.sequence;
  options.losses = loss_weights(request.train);
  options.one_segment = request.one_segment;
  for (const auto& stage : parts.layout)
    parts.programs.push_back(runtime::differentiate(layers::build_stage(parts.model, stage, options), policy, {request.device, 0}));
  return parts;
}

std::vector<std::size_t> kinds_of_layers(const layers::ModelConfig& model) {
  // A module also has an embedding and a projection, and receives more streams than the one before it.
  struct Kind {
    layers::LayerSpec layer;
    int module = 0;
    bool operator==(const Kind&) const = default;
  };
  std::vector<Kind> known;
  std::vector<std::size_t> kinds;
  const layers::ModelSpec resolved = layers::resolve(model);
  for (int index = 0; index < static_cast<int>(resolved.layers.size()); ++index) {
    Kind kind{resolved.layers[static_cast<std::size_t>(index)], std::max(index - resolved.decoder_layers() + 1, 0)};
    if (auto* attention = std::get_if<layers::AttentionSpec>(&kind.layer.mixer)) attention->scale = 1;
    const auto same = std::ranges::find(known, kind);
    kinds.push_back(static_cast<std::size_t>(same - known.begin()));
    if (same == known.end()) known.push_back(std::move(kind));
  }
  return kinds;
}

std::vector<int> layers_of_every_kind(const std::vector<std::size_t>& kinds, int count) {
  std::vector<int> chosen, taken;
  for (std::size_t layer = 0; layer < kinds.size(); ++layer) {
    taken.resize(std::max(taken.size(), kinds[layer] + 1));
    if (taken[kinds[layer]]++ < count) chosen.push_back(static_cast<int>(layer));
  }
  return chosen;
}

std::vector<runtime::RankStage> ModelParts::stages(const runtime::TrainConfig& train) const {
  const runtime::MatrixRule matrices(train, model.numerics == "maxtext");
  const runtime::NamePatterns trainable("train.trainable", train.trainable);
  std::vector<runtime::RankStage> stages;
  for (std::size_t part = 0; part < size(); ++part) {
    runtime::RankStage stage;
    stage.stage = runtime::StageId(static_cast<int>(part));
    stage.training = programs[part];
    for (const auto& spec : layers::parameters(model, layout[part], loss_weights(train)))
      stage.parameters.push_back({.name = spec.name,
                                  .shape = spec.shape,
                                  .stage = stage.stage,
                                  .use = spec.use,
                                  .order = spec.order,
                                  .trained = spec.trained && (trainable.empty() || trainable.match(spec.name)),
                                  .matrices = matrices.matrices(spec.name, spec.shape, spec.stored)});
    stages.push_back(std::move(stage));
  }
  return stages;
}

}  // namespace millrace::actors
