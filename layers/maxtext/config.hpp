#pragma once

#include <string>
#include <string_view>

#include "layers/json_reader.hpp"
#include "layers/model_config.hpp"

namespace millrace::layers {

/// Whether a config.json holds MaxText's flat keys: it has decoder_block.
[[nodiscard]] bool is_maxtext(JsonReader& reader);

/// MaxText's keys after all derivations, as a model with numerics = "maxtext". Errors: Error(model) naming the key, its value and what is
/// supported: another decoder_block, and every key that would change what is computed and is not at the value that this project computes.
[[nodiscard]] ModelConfig read_maxtext(JsonReader& reader, double& z_loss);

/// The same keys again. `dtype` is the one of the exported tensors ("float32", "bfloat16").
[[nodiscard]] OrderedJson maxtext_json(const ModelConfig& model, std::string_view dtype, double z_loss);

}  // namespace millrace::layers
