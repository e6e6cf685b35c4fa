#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's OLMo 3: norms only after the branches, queries and keys normed over all heads at once, three sliding layers per full one:
///   x ← x + norm(attention(x));   x ← x + norm(mlp(x)).
/// YaRN rotates the sliding layers too, which transformers' OLMo 3 leaves unscaled. MaxText finds the form of the query and key norms by
/// the name of the model.
const ModelFamily& maxtext_olmo3() {
  constexpr LayerKind sliding = LayerKind::sliding;
  static const MaxTextFamily family(
      "olmo3",
      {.scale_in_weights = false,
       .query_key_norm = QueryKeyNorm::all_heads,
       .norms = NormPlacement::after,
       .norm_names = {.after_attention = "post_self_attention_layer_norm", .after_mlp = "post_mlp_layer_norm"},
       .attention_module = "attention"},
      {.yarn = true,
       .kinds = {sliding, sliding, sliding, LayerKind::full},
       .model_names = {"olmo3-7b", "olmo3-7b-pt", "olmo3-32b"},
       .fixed = {{"use_qk_norm", true}, {"qk_norm_with_scale", true}, {"inhomogeneous_layer_cycle_interval", 4}}});
  return family;
}

}  // namespace millrace::layers
