#pragma once

#include <vector>

#include "actors/setup/pipeline_plan.hpp"
#include "layers/models/model.hpp"
#include "runtime/engine/rank_compute.hpp"

namespace millrace::actors {

/// A model's parts as separate stages: the embedding, one or more decoder layers, the head.
struct ModelParts {
  layers::ModelConfig model;  // with as many layers as there are parts
  std::vector<layers::StageLayout> layout;
  std::vector<runtime::ProgramSet> programs;

  [[nodiscard]] std::size_t size() const noexcept { return layout.size(); }
  /// The stages in the form that a rank takes, with weights but without slots; the caller sets the number of slots.
  [[nodiscard]] std::vector<runtime::RankStage> stages() const;
};

/// The parts of the request's model, with `layers` of its decoder layers and the request's rematerialisation policy in all of
/// them.
[[nodiscard]] ModelParts parts_of(const actors::PlanRequest& request, int layers);

}  // namespace millrace::actors
