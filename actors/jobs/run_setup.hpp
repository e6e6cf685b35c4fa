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

/// Derives the inputs of a run's components from its settings; used both for training by actors and by the stepper.
namespace millrace::actors {

[[nodiscard]] runtime::BatchShape batch_shape(const JobConfig& settings);
/// `batches` must outlive the coordinator. `evaluation_microbatches` = 0: no evaluation.
[[nodiscard]] CoordinatorSetup coordinator_setup(const RunSettings& settings, const PipelinePlan& plan, const BatchProvider& batches,
                                                 std::int64_t first_step, std::int64_t evaluation_microbatches);
/// What a resumed run must have in common with the original: the identity keys of the config, the names and sizes of the data,
/// and the division of gradient sums. The content of the data is compared separately (data_content.hpp).
[[nodiscard]] std::map<std::string, std::string> run_identity(const RunSettings& settings, const PipelinePlan& plan,
                                                              const DatasetBatches& batches, std::int64_t threads);
/// Whether the run that wrote this identity held out none of its data. It is then resumed in the same way, even if data.held_out
/// would split the data today.
[[nodiscard]] bool held_nothing_out(const std::map<std::string, std::string>& identity);
/// The run's data. `whole`: nothing is held out, whatever data.held_out says. Errors: those of runtime::open_dataset().
[[nodiscard]] runtime::Dataset open_data(const RunSettings& settings, bool whole);
/// The threads per rank of the run that wrote the checkpoint; 0 if they are not recorded.
[[nodiscard]] std::int64_t noted_threads(const runtime::CheckpointReader& checkpoint);
/// Parameters and optimizer states of a rank: from `checkpoint`, where there is none from model.from, else from the seed.
void initialize(Rank& rank, const RunSettings& settings, const runtime::CheckpointReader* checkpoint);

}  // namespace millrace::actors
