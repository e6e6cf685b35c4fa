#pragma once

#include <string>
#include <string_view>

#include "layers/formats/maxtext/keys.hpp"
#include "layers/model_config.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// Whether a config.json holds MaxText's flat keys: it has decoder_block.
[[nodiscard]] bool is_maxtext(runtime::JsonReader& reader);

/// MaxText's keys after all derivations, as a model with numerics = "maxtext" and the block's name as its family. Errors: Error(model)
/// naming the key, its value and what is supported: every key that would change what is computed and is not at the value that this project
/// computes.
[[nodiscard]] ModelConfig read_maxtext(runtime::JsonReader& reader, const MaxTextFile& file, runtime::LossWeights& losses);

/// Writes the same keys. `dtype` is the dtype of the exported tensors ("float32", "bfloat16").
[[nodiscard]] runtime::OrderedJson maxtext_json(const ModelConfig& model, const MaxTextFile& file, std::string_view dtype,
                                                const runtime::LossWeights& losses);

}  // namespace millrace::layers
