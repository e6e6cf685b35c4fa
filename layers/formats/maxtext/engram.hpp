#pragma once

#include "layers/formats/maxtext/keys.hpp"
#include "layers/model_config.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// Reads the keys engram_… of a block whose layers may have n-gram memories. MaxText takes the number of compressed ids and that of the
/// padding token from the tokenizer; here the file has them, as engram_compressed_vocab_size and engram_compressed_pad_id. The numbers that
/// follow from these keys, engram_multipliers_layer_N and engram_primes_layer_N, are compared if the file has them. Throws Error(model)
/// naming the key.
void read_maxtext_engram(runtime::JsonReader& reader, const MaxTextFile& file, ModelConfig& model);

/// Writes the same keys, without those that follow from others.
void write_maxtext_engram(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model);

}  // namespace millrace::layers
