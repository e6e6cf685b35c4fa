#pragma once

#include "layers/formats/maxtext/keys.hpp"
#include "layers/model_config.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// Reads the keys of MaxText's multi-head latent attention, if the block has it; `model` has its heads and its rotation already. Errors as
/// read_maxtext has them.
void read_maxtext_latent(runtime::JsonReader& reader, const MaxTextFile& file, ModelConfig& model);

/// Writes the same keys.
void write_maxtext_latent(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model);

}  // namespace millrace::layers
