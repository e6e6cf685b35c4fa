#include "actors/planning/model_parts.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "runtime/passes/differentiate.hpp"

namespace millrace::actors {

ModelParts parts_of(const actors::PlanRequest& request, int layers) {
  ModelParts parts;
  parts.model = request.model;
  parts.model.layers = layers;
  std::string text = "E";
  for (int layer = 0; layer < layers; ++layer) text += " | t";
  parts.layout = layers::parse_layout(text + " | H", layers, layers + 2);
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

std::vector<runtime::RankStage> ModelParts::stages() const {
  std::vector<runtime::RankStage> stages;
  for (std::size_t part = 0; part < size(); ++part) {
    runtime::RankStage stage;
    stage.stage = runtime::StageId(static_cast<int>(part));
    stage.training = programs[part];
    for (const auto& spec : layers::parameters(model, layout[part]))
      stage.parameters.push_back({spec.name, spec.shape, stage.stage, spec.use, spec.order});
    stages.push_back(std::move(stage));
  }
  return stages;
}

}  // namespace millrace::actors
