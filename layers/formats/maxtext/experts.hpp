#pragma once

#include <string>

#include "layers/formats/maxtext/keys.hpp"
#include "layers/model_config.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// Reads the keys of MaxText's experts, if the block has experts, and the weight of their balance loss. Errors as read_maxtext has them.
void read_maxtext_experts(runtime::JsonReader& reader, const MaxTextFile& file, ModelConfig& model, runtime::LossWeights& losses);

/// The model_name under which MaxText chooses experts as this model does.
[[nodiscard]] std::string choosing_model_name(const ModelConfig& model, const MaxTextExperts& experts);

/// Writes the same keys.
void write_maxtext_experts(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model,
                           const runtime::LossWeights& losses);

}  // namespace millrace::layers
