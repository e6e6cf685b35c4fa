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

}  // namespace millrace::tools
