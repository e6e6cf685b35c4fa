#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "layers/formats/hugging_face/config.hpp"
#include "layers/model_config.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// A GPT-2's config.json, whose keys are its own (n_embd for hidden_size); `file` is its class, the family is left to the caller. Errors:
/// Error(model) naming the key, its value and what is supported.
[[nodiscard]] ModelConfig read_gpt2(runtime::JsonReader& reader, const HuggingFaceClass& file, std::vector<std::string>& warnings);

/// Writes the same keys. `dtype` is the dtype of the exported tensors.
[[nodiscard]] runtime::OrderedJson gpt2_json(const ModelConfig& model, const HuggingFaceClass& file, std::string_view dtype);

}  // namespace millrace::layers
