#pragma once

#include "actors/jobs/parity.hpp"
#include "layers/formats/config_file.hpp"
#include "runtime/io/safetensors.hpp"
#include "runtime/train_config.hpp"

namespace millrace::actors {

/// Whether a golden.safetensors has recorded steps of a training run: `step.<scalar>` [steps] and `after<n>.<parameter>`.
[[nodiscard]] bool has_recorded_steps(const runtime::SafetensorsFile& golden);

/// How the run was trained, from MaxText's keys in a folder's config.json: optimizer, its numbers, clipping, learning rate (train.steps is
/// the length of its rule), weight decay, by the rules of MaxText. Throws Error(model) naming key and value where the run needs what is not
/// here: another opt_type, accumulation as MaxText counts it, skipped steps, frozen parameters, other dtypes of states or gradients.
[[nodiscard]] runtime::TrainConfig recorded_training(const std::string& folder);

/// Trains the recorded steps from the folder's weights in the layout of `settings`, and in process 0 compares every step's scalars and the
/// parameters after some steps with the recording, printing the largest difference of each and a hash of all that was computed. Collective;
/// the session is connected. Returns whether everything is within the limits of tolerance.json, in process 0 (true elsewhere). Errors:
/// Error(model), Error(config).
[[nodiscard]] bool run_recorded_steps(Session& session, const ParitySettings& settings, const layers::ConfigFile& config,
                                      const runtime::SafetensorsFile& golden);

}  // namespace millrace::actors
