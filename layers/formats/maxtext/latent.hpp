#pragma once

#include "layers/formats/maxtext/keys.hpp"
#include "layers/model_config.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// Reads the keys of MaxText's multi-head latent attention and of its sparse indexer, if the block has them; `model` has its heads and its
/// rotation already. Errors as read_maxtext has them.
void read_maxtext_latent(runtime::JsonReader& reader, const MaxTextFile& file, ModelConfig& model, runtime::LossWeights& losses);

/// Writes the same keys.
void write_maxtext_latent(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model,
                          const runtime::LossWeights& losses);

}  // namespace millrace::layers
