#pragma once

#include "actors/jobs/parity.hpp"
#include "layers/formats/config_file.hpp"
#include "runtime/io/safetensors.hpp"
#include "runtime/train_config.hpp"

namespace millrace::actors {

/// Whether a golden.safetensors has recorded steps of a training run: `step.<scalar>` [steps] and `after<n>.<parameter>`.
[[nodiscard]] bool has_recorded_steps(const runtime::SafetensorsFile& golden);

/// Reads how the run was trained from MaxText's keys in a folder's config.json: the optimizer and its numbers, clipping, weight
/// decay, and the learning rate, whose rule is train.steps steps long. All follow MaxText's rules. Throws Error(model) naming key
/// and value for a run that needs something unsupported: another opt_type, MaxText's gradient accumulation, skipped steps, frozen
/// parameters, other dtypes of states or gradients.
[[nodiscard]] runtime::TrainConfig recorded_training(const std::string& folder);

/// Trains the recorded steps from the folder's weights in the layout of `settings`. Process 0 compares the scalars of every step,
/// and the parameters after those steps for which they were recorded, with the recording; it prints the largest difference of each
/// and a hash of everything computed. Collective; the session is connected. Returns whether everything is within the limits of
/// tolerance.json, in process 0 (true elsewhere). Errors: Error(model), Error(config).
[[nodiscard]] bool run_recorded_steps(Session& session, const ParitySettings& settings, const layers::ConfigFile& config,
                                      const runtime::SafetensorsFile& golden);

}  // namespace millrace::actors
