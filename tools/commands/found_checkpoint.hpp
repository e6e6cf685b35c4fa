#pragma once

#include <string>
#include <vector>

#include "layers/model_config.hpp"
#include "runtime/checkpoint/checkpoint_file.hpp"

/// Checkpoints as users name them: a checkpoint's folder, or the run directory that has it. Errors: Error(checkpoint), in the name of
/// `who`.
namespace millrace::tools {

[[nodiscard]] bool is_run_directory(const std::string& path);
[[nodiscard]] bool is_checkpoint(const std::string& path);

/// The committed checkpoints of a run directory, oldest first.
[[nodiscard]] std::vector<runtime::ListedCheckpoint> committed_checkpoints(const std::string& path, const char* who);
/// A checkpoint as named, or the newest committed one of a run directory: opened, and so with a whole manifest and whole headers.
[[nodiscard]] runtime::CheckpointReader open_checkpoint(const std::string& path, const char* who);
/// The model that a checkpoint is of: its identity has every model key, checksummed with the rest of the manifest.
[[nodiscard]] layers::ModelConfig model_of(const runtime::CheckpointReader& checkpoint, const char* who);

}  // namespace millrace::tools
