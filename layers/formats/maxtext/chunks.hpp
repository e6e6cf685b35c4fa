#pragma once

#include "layers/model_config.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// Reads what MaxText's Llama 4 says of its layers: every nope_layer_interval-th has no rotation and attends to all earlier tokens, with
/// temperature_tuning; the others attend to chunks of chunk_attn_window_size and have a norm behind the rotation with use_qk_norm; every
/// interleave_moe_layer_step-th has experts. `model` has its number of layers already. Errors as read_maxtext has them.
void read_maxtext_chunks(runtime::JsonReader& reader, ModelConfig& model);

/// Writes the same keys: layers that do not repeat as MaxText's do, and other numbers of the temperature than its own, are lost.
void write_maxtext_chunks(runtime::OrderedJson& json, const ModelConfig& model);

}  // namespace millrace::layers
