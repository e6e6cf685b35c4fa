#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// Gemma 2 (arXiv 2408.00118): Gemma with norms before and after each branch, every other layer with a sliding window, and soft caps on
/// scores and logits:
///   x ← x + norm(attention(norm(x)));   x ← x + norm(mlp(norm(x))).
const ModelFamily& gemma2() {
  static const StandardFamily family({.name = "gemma2",
                                      .keys = standard_keys({"model.attention_bias", "model.query_pre_attn_scalar",
                                                             "model.attn_logit_softcapping", "model.final_logit_softcapping"})},
                                     {.norms = NormPlacement::around, .norm_offset = 1, .round_first = false, .scale_embedding = true},
                                     {.model_type = "gemma2",
                                      .architecture = "Gemma2ForCausalLM",
                                      .activation = kernels::Activation::gelu,
                                      .activation_key = "hidden_activation",
                                      .gelu_is_tanh = true,
                                      .attention_bias = true,
                                      .tied = true,
                                      .head_dim = 256,
                                      .heads = 8,
                                      .kv_heads = 4,
                                      .vocab_size = 256000,
                                      .positions = 8192,
                                      .window = 4096,
                                      .full_every = 2,
                                      .reads_layer_types = true,
                                      .query_pre_attn_scalar = 256,
                                      .attention_cap = 50,
                                      .final_cap = 30,
                                      .reads_attention_cap = true,
                                      .bidirectional = BidirectionalKey::ambiguous});
  return family;
}

}  // namespace millrace::layers
