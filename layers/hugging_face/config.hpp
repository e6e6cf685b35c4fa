#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "layers/model_config.hpp"

namespace millrace::layers {

/// What a Hugging Face config.json says, and what in it was not understood but does no harm.
struct HuggingFaceConfig {
  ModelConfig model;
  std::vector<std::string> warnings;
};

/// Reads the spellings of transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters). A missing key has the default of its
/// transformers class; vocab_size, hidden_size, intermediate_size and num_hidden_layers must be there. A key that this project does not
/// know is a warning. `where` is named in messages. Errors: Error(model) naming the key, its value and what is supported: another
/// model_type, activation or kind of rotary scaling, biases, a quantised checkpoint, a value of the wrong type or out of range, heads that
/// kv_heads do not divide.
[[nodiscard]] HuggingFaceConfig parse_hugging_face_config(std::string_view text, const std::string& where);

/// The same from a file, or from the config.json of a folder. Errors: Error(model), also when it cannot be read.
[[nodiscard]] HuggingFaceConfig read_hugging_face_config(const std::filesystem::path& path);

/// A config.json that transformers 5 and 4 read alike: rope_parameters beside rope_theta and rope_scaling. `dtype` is the one of the
/// exported tensors ("float32", "bfloat16"). Ends with a newline.
[[nodiscard]] std::string hugging_face_config_text(const ModelConfig& model, std::string_view dtype);

}  // namespace millrace::layers
