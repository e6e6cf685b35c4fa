#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "actors/coordinator.hpp"
#include "actors/rank/batch_provider.hpp"
#include "actors/rank/rank.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "actors/setup/run_settings.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"

/// What a run's parts are given, from its settings: the same whether actors train it or the stepper walks through it.
namespace millrace::actors {

[[nodiscard]] runtime::BatchShape batch_shape(const JobConfig& settings);
/// `batches` outlives the coordinator. `evaluation_microbatches` 0: nothing is evaluated.
[[nodiscard]] CoordinatorSetup coordinator_setup(const RunSettings& settings, const PipelinePlan& plan, const BatchProvider& batches,
                                                 std::int64_t first_step, std::int64_t evaluation_microbatches);
/// What a resumed run must have in common with the one that it goes on with: the identity keys of the config, the names and sizes of the
/// data, and how gradient sums are split. The content of the data comes beside it (data_content.hpp).
[[nodiscard]] std::map<std::string, std::string> run_identity(const RunSettings& settings, const PipelinePlan& plan,
                                                              const DatasetBatches& batches, std::int64_t threads);
/// Whether the run that wrote this identity held nothing out of its data. It is resumed that way, also where data.held_out would part the
/// data today.
[[nodiscard]] bool held_nothing_out(const std::map<std::string, std::string>& identity);
/// The run's data. `whole`: nothing is held out, whatever data.held_out says. Errors: those of runtime::open_dataset.
[[nodiscard]] runtime::Dataset open_data(const RunSettings& settings, bool whole);
/// The threads a rank that a checkpoint's run had; 0 where it does not tell.
[[nodiscard]] std::int64_t noted_threads(const runtime::CheckpointReader& checkpoint);
/// Parameters and optimizer states of a rank: from `checkpoint`, where there is none from model.from, else from the seed.
void initialize(Rank& rank, const RunSettings& settings, const runtime::CheckpointReader* checkpoint);

}  // namespace millrace::actors
