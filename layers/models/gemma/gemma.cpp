#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// Gemma (arXiv 2403.08295): Llama with embeddings scaled by √hidden_size, GELU instead of SiLU, and norm weights that are stored
/// minus 1.
const ModelFamily& gemma() {
  static const StandardFamily family({.name = "gemma", .keys = standard_keys({"model.attention_bias"})},
                                     {.norm_offset = 1, .round_first = false, .scale_embedding = true},
                                     {.model_type = "gemma",
                                      .architecture = "GemmaForCausalLM",
                                      .activation = kernels::Activation::gelu,
                                      .gelu_is_tanh = true,
                                      .attention_bias = true,
                                      .tied = true,
                                      .head_dim = 256,
                                      .heads = 16,
                                      .kv_heads = 16,
                                      .vocab_size = 256000,
                                      .positions = 8192,
                                      .bidirectional = BidirectionalKey::ambiguous});
  return family;
}

}  // namespace millrace::layers
