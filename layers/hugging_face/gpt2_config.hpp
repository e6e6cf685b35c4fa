#pragma once

#include "layers/json_reader.hpp"
#include "layers/model_config.hpp"

namespace millrace::layers {

/// Whether a config.json is a GPT-2's, whose keys are its own (n_embd for hidden_size).
[[nodiscard]] bool is_gpt2(JsonReader& reader);

/// Errors: Error(model) naming the key, its value and what is supported.
[[nodiscard]] ModelConfig read_gpt2(JsonReader& reader, std::vector<std::string>& warnings);

/// The config.json of a GPT-2.
[[nodiscard]] OrderedJson gpt2_json(const ModelConfig& model);

}  // namespace millrace::layers
