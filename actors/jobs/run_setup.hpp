#pragma once

#include <cstdint>
#include <string>

#include "actors/coordinator.hpp"
#include "actors/rank/batch_provider.hpp"
#include "actors/rank/rank.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "actors/setup/run_identity.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"

/// Derives the inputs of a run's components from its settings; used both for training by actors and by the stepper.
namespace millrace::actors {

[[nodiscard]] runtime::BatchShape batch_shape(const runtime::TrainConfig& train, const runtime::DataConfig& data,
                                              const layers::ModelConfig& model);
/// A coordinator that trains from `first_step` on, and neither evaluates nor saves nor samples. `batches` must outlive it.
[[nodiscard]] CoordinatorSetup coordinator_setup(const runtime::TrainConfig& train, const PipelinePlan& plan, const BatchProvider& batches,
                                                 std::int64_t first_step);
/// What a resumed run must have in common with the original: the identity keys of the config, the names and sizes of the data,
/// and the division of gradient sums. The content of the data is compared separately (data_content.hpp).
[[nodiscard]] IdentityKeys run_identity(IdentityKeys keys, const PipelinePlan& plan, const DataSource& batches,
                                        const runtime::TokenCompression* compression);
/// Whether the run that wrote this identity held out none of its data. It is then resumed in the same way, even if data.held_out
/// would split the data today.
[[nodiscard]] bool held_nothing_out(const IdentityKeys& identity);
/// The run's data. `whole`: nothing is held out, whatever data.held_out says. Errors: those of runtime::open_dataset().
[[nodiscard]] runtime::Dataset open_data(runtime::DataConfig data, std::int64_t vocabulary, bool whole);
/// The data of an evaluation.
struct HeldOut {
  std::int64_t microbatches = 0;  // 0: there is nothing to evaluate
  std::string text;
};
[[nodiscard]] HeldOut held_out(const runtime::EvaluateConfig& evaluate, const DataSource& batches);
/// The state of the run that wrote the checkpoint beside parameters and their states; empty if it had none.
[[nodiscard]] runtime::RunState run_state_of(const runtime::CheckpointReader& checkpoint);
/// Where parameters and optimizer states of a rank come from.
struct InitialState {
  const runtime::CheckpointReader* checkpoint = nullptr;  // null: the folder or, without one, the seed
  bool optimizer_states = true;                           // from the checkpoint too; false: as in a new run
  std::string model_from = {};                            // model.from; may be empty
  std::string overruled = {};                             // the keys that overrule config.json of that folder, for messages
  std::int64_t seed = 1;
};
void initialize(Rank& rank, const InitialState& state);

}  // namespace millrace::actors
