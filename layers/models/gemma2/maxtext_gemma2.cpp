#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's Gemma 2. What it counts as a layer are two, the first with a sliding window:
///   x ← x + norm(attention(norm(x)));   x ← x + norm(mlp(norm(x))).
/// Its epsilon is that of gemma (layers/models/gemma/maxtext_gemma.cpp).
const ModelFamily& maxtext_gemma2() {
  static const MaxTextFamily family(
      "gemma2",
      {.norms = NormPlacement::around,
       .norm_names = {.before_attention = "pre_self_attention_norm",
                      .after_attention = "post_self_attention_norm",
                      .before_mlp = "pre_ffw_norm",
                      .after_mlp = "post_ffw_norm"},
       .parts = {{"_local", LayerKind::sliding}, {"_global", LayerKind::full}}},
      {.fixed = {{"normalization_layer_epsilon", 1e-6}, {"use_post_attn_norm", true}, {"use_post_ffw_norm", true}}},
      {"model.attn_logit_softcapping"});
  return family;
}

}  // namespace millrace::layers
