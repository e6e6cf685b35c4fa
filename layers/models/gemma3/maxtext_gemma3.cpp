#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's Gemma 3, text: five sliding layers per full one, each kind with a rotation of its own; queries and keys are normed head by
/// head, although use_qk_norm is false. MaxText finds the scale of scores by the name of the model. The epsilon is that of gemma
/// (layers/models/gemma/maxtext_gemma.cpp).
const ModelFamily& maxtext_gemma3() {
  constexpr LayerKind sliding = LayerKind::sliding;
  static const MaxTextFamily family("gemma3",
                                    {.scale_in_weights = false,
                                     .query_key_norm = QueryKeyNorm::per_head,
                                     .norms = NormPlacement::around,
                                     .norm_names = {.before_attention = "pre_self_attention_norm",
                                                    .after_attention = "post_self_attention_norm",
                                                    .before_mlp = "pre_ffw_norm",
                                                    .after_mlp = "post_ffw_norm"}},
                                    {.linear_rope = true,
                                     .kinds = {sliding, sliding, sliding, sliding, sliding, LayerKind::full},
                                     .model_names = {"gemma3-4b", "gemma3-12b", "gemma3-27b"},
                                     .scaled_by_width = "gemma3-27b",
                                     .fixed = {{"normalization_layer_epsilon", 1e-6},
                                               {"use_post_attn_norm", true},
                                               {"use_post_ffw_norm", true},
                                               {"qk_norm_with_scale", true}}},
                                    {"model.attn_logit_softcapping", "model.query_pre_attn_scalar"});
  return family;
}

}  // namespace millrace::layers
