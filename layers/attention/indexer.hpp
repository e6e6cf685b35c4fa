#pragma once

#include <string>
#include <string_view>

#include "layers/attention/latent.hpp"
#include "layers/layer_spec.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// The parameters of a layer's indexer. Matrices are [outputs, inputs], or with input_major [inputs, outputs].
struct IndexerParameters {
  runtime::ValueId query;       // from the queries' latent vector to heads · head_dim
  runtime::ValueId key;         // from the layer's input to head_dim
  runtime::ValueId weights;     // from the layer's input to heads; f32
  runtime::ValueId norm_scale;  // f32 [head_dim], of the LayerNorm of keys
  runtime::ValueId norm_bias;
  bool input_major = false;
};

/// How an indexer's parameters are declared: f32 or not, and trained or not.
[[nodiscard]] runtime::ParameterForm indexer_form(const IndexerSpec& spec, const runtime::LossWeights& losses, bool f32);

/// Attention to the keys that an indexer chooses (DeepSeek-V3.2, arXiv 2512.02556, section 2.1): x [T, width] → [T, width], the output of
/// `attention` with the keys of each query limited to the indexer's best. Rows that are not longer than the number of these keys have
/// attention to all keys, and then the indexer computes nothing. Its inputs are constants to it and its choice has no gradient, so that
/// only its own loss trains it; the term is declared if losses.indexer_loss > 0:
///   indexer_loss   weight · the divergence of kernels/indexer_loss.hpp, a mean over tokens and over the model's layers with an indexer.
/// It compares the distributions over the chosen keys or, with losses.indexer_warmup, over all that a query sees. Auxiliary: part of a
/// step's loss, and beside an evaluation's. `spec` has an indexer, and `attention` is made of it; operations are named `<name>.…`.
[[nodiscard]] runtime::ValueId indexed_attention(runtime::ProgramBuilder& builder, const LatentAttention& attention, const ModelSpec& model,
                                                 const LatentAttentionSpec& spec, const IndexerParameters& parameters, runtime::ValueId x,
                                                 const std::string& name);

/// The parameters as transformers has them, under `module`: wq_b [heads·head_dim, query_rank], wk [head_dim, width], weights_proj [heads,
/// width] (.weight), k_norm [head_dim] (.weight and .bias).
[[nodiscard]] IndexerParameters hugging_face_indexer(runtime::ProgramBuilder& builder, const ModelSpec& model,
                                                     const LatentAttentionSpec& spec, const std::string& module);

/// Throws Error(model) naming `family` and what does not fit: an indexer needs the queries' latent vector, causal attention, and heads that
/// hold the rotated part.
void check_indexer(const std::string& family, const LatentAttentionSpec& spec);

/// Whether a parameter of this name belongs to an indexer; the others are not trained while it is warmed up.
[[nodiscard]] bool is_of_indexer(std::string_view parameter);

}  // namespace millrace::layers
