#pragma once

#include "layers/model_config.hpp"
#include "runtime/checkpoint/found_checkpoint.hpp"

namespace millrace::tools {

using runtime::is_checkpoint;
using runtime::is_run_directory;
using runtime::open_checkpoint;

/// The model of a checkpoint, from the model keys in its identity, which the manifest's checksum covers. Errors: Error(checkpoint), with
/// the component `component`.
[[nodiscard]] layers::ModelConfig model_of(const runtime::CheckpointReader& checkpoint, const char* component);

/// Refuses a run directory or a checkpoint of millrace where a model's folder is expected, and says how one is made of it.
void want_no_run(const std::string& path, const char* component);

}  // namespace millrace::tools
