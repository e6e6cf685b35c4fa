#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "layers/json_reader.hpp"
#include "layers/model_config.hpp"

namespace millrace::layers {

/// What a config.json of transformers says, in the spelling of its version 4 (rope_theta, rope_scaling) or 5 (rope_parameters). A missing
/// key has the default of its transformers class; vocab_size, hidden_size, intermediate_size and num_hidden_layers must be there where the
/// class has none. Errors: Error(model) naming the key, its value and what is supported: another model_type, activation or kind of rotary
/// scaling, biases, a quantised checkpoint, a value of the wrong type or out of range, heads that kv_heads do not divide.
[[nodiscard]] ModelConfig read_hugging_face(JsonReader& reader, std::vector<std::string>& warnings);

/// A config.json for transformers, with one of the keys of rotations (rope.hpp). `dtype` is the one of the exported tensors ("float32",
/// "bfloat16").
[[nodiscard]] OrderedJson hugging_face_json(const ModelConfig& model, std::string_view dtype);

}  // namespace millrace::layers
