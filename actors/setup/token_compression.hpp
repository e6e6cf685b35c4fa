#pragma once

#include <memory>
#include <string>

#include "layers/model_config.hpp"
#include "runtime/data/token_compression.hpp"
#include "runtime/train_config.hpp"

namespace millrace::actors {

/// What the tokens of a model's n-gram memories are compressed by; null for a model without. `source` is a table file (*.safetensors) or
/// what open_tokenizer() takes. Errors: Error(config) without a source, or if the compressed ids are not as many as the model has, or the
/// padding is another one; Error(data), as reading the source throws it.
[[nodiscard]] std::shared_ptr<const runtime::TokenCompression> open_compression(const layers::ModelConfig& model,
                                                                                const std::string& source);

/// The source for a run: data.token_compression, else the byte vocabulary for data.text, else the folder of model.from; may be empty.
[[nodiscard]] std::string compression_source(const runtime::DataConfig& data, const std::string& model_from);

/// The hash of a table, for a run's identity.
[[nodiscard]] std::string compression_hash(const runtime::TokenCompression& compression);

}  // namespace millrace::actors
