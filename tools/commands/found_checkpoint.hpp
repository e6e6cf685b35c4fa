#pragma once

#include <string>
#include <vector>

#include "layers/model_config.hpp"
#include "runtime/checkpoint/checkpoint_file.hpp"

/// Finds the checkpoints that a user names: by a checkpoint's folder, or by the run directory that contains it. Errors:
/// Error(checkpoint), with the component `component`.
namespace millrace::tools {

[[nodiscard]] bool is_run_directory(const std::string& path);
[[nodiscard]] bool is_checkpoint(const std::string& path);

/// The committed checkpoints of a run directory, oldest first.
[[nodiscard]] std::vector<runtime::ListedCheckpoint> committed_checkpoints(const std::string& path, const char* component);
/// Opens the named checkpoint, or the newest committed one of a run directory. Its manifest and headers have been verified.
[[nodiscard]] runtime::CheckpointReader open_checkpoint(const std::string& path, const char* component);
/// The model of a checkpoint, from the model keys in its identity, which the manifest's checksum covers.
[[nodiscard]] layers::ModelConfig model_of(const runtime::CheckpointReader& checkpoint, const char* component);

}  // namespace millrace::tools
