#pragma once

#include "layers/model_config.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// Reads moba, moba_chunk_size and moba_topk of a block with attention. MaxText applies them in its attention "dot_product" alone, and
/// refuses other kernels: so does this, Error(model) naming the key.
void read_moba(runtime::JsonReader& reader, ModelConfig& model);

/// Writes the same keys, and the kernel that they need.
void write_moba(runtime::OrderedJson& json, const ModelConfig& model);

}  // namespace millrace::layers
