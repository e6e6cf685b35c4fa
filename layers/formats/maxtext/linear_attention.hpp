#pragma once

#include "layers/formats/maxtext/keys.hpp"
#include "layers/model_config.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// Reads the keys of MaxText's hybrid blocks, if the block is one: the sizes of its gated delta nets, which layers have full attention, and
/// the part of their heads that is rotated. `model` has its layers, heads and rotation already. Errors as read_maxtext has them.
void read_maxtext_linear_attention(runtime::JsonReader& reader, const MaxTextFile& file, ModelConfig& model);

/// Writes the same keys.
void write_maxtext_linear_attention(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model);

}  // namespace millrace::layers
