#pragma once

#include <cstddef>
#include <vector>

#include "actors/setup/pipeline_plan.hpp"
#include "layers/models/model.hpp"
#include "runtime/engine/rank_compute.hpp"

namespace millrace::actors {

/// A model's parts as separate stages: the embedding, some of its decoder layers and modules of multi-token prediction, the head.
struct ModelParts {
  layers::ModelConfig model;
  std::vector<layers::StageLayout> layout;
  std::vector<runtime::ProgramSet> programs;

  [[nodiscard]] std::size_t size() const noexcept { return layout.size(); }
  /// The stages in the form that a rank takes, with weights but without slots; the caller sets the number of slots. `train` says which
  /// weights the optimizer updates, and which as matrices.
  [[nodiscard]] std::vector<runtime::RankStage> stages(const runtime::TrainConfig& train) const;
};

/// The parts of the request's model, with these of its decoder layers, in order, and the request's rematerialisation policy in all of them.
[[nodiscard]] ModelParts parts_of(const actors::PlanRequest& request, const std::vector<int>& layers);

/// The number of the kind of each layer, and behind them of each module of multi-token prediction, counted from 0 in the order in which
/// kinds appear. Layers of a kind cost the same: their specs are equal but for the scale of scores.
[[nodiscard]] std::vector<std::size_t> kinds_of_layers(const layers::ModelConfig& model);

/// The first layers of every kind, at most `count` of each, in order.
[[nodiscard]] std::vector<int> layers_of_every_kind(const std::vector<std::size_t>& kinds, int count);

}  // namespace millrace::actors
