#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "actors/batch_provider.hpp"
#include "actors/coordinator.hpp"
#include "actors/pipeline_plan.hpp"
#include "actors/rank.hpp"
#include "actors/run_settings.hpp"
#include "layers/optimizers/learning_rate.hpp"
#include "runtime/io/checkpoint_reader.hpp"

/// What a run's parts are given, from its settings: the same whether actors train it or the stepper walks through it.
namespace millrace::actors {

[[nodiscard]] layers::LearningRate learning_rate(const runtime::TrainConfig& train);
[[nodiscard]] runtime::BatchShape batch_shape(const RunSettings& settings);
/// `batches` outlives the coordinator. `evaluation_microbatches` 0: nothing is evaluated.
[[nodiscard]] CoordinatorSetup coordinator_setup(const RunSettings& settings, const PipelinePlan& plan, const BatchProvider& batches,
                                                 std::int64_t first_step, std::int64_t evaluation_microbatches);
/// What a resumed run must have in common with the one that it goes on with: the identity keys of the config, the data, and how gradient
/// sums are split.
[[nodiscard]] std::map<std::string, std::string> run_identity(const RunSettings& settings, const PipelinePlan& plan,
                                                              const DatasetBatches& batches, std::int64_t threads);
/// The threads a rank that a checkpoint's run had; 0 where it does not tell.
[[nodiscard]] std::int64_t noted_threads(const runtime::CheckpointReader& checkpoint);
/// Parameters and moments of a rank: from `checkpoint`, where there is none from model.from, else from the seed.
void initialize(Rank& rank, const RunSettings& settings, const runtime::CheckpointReader* checkpoint);

}  // namespace millrace::actors
