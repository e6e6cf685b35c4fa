#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's Qwen 3 with experts: its Qwen 3 with many small experts in place of every MLP. Weights are always a softmax over the chosen
/// experts, whatever norm_topk_prob says.
const ModelFamily& maxtext_qwen3_moe() {
  static const MaxTextFamily family(
      "qwen3_moe",
      {.scale_in_weights = false,
       .output_dropout = false,
       .query_key_norm = QueryKeyNorm::per_head,
       .norm_names = {.before_attention = "pre_self_attention_layer_norm", .before_mlp = "post_self_attention_layer_norm"},
       .experts = MaxTextExperts{.module = "moe_block"}},
      {.fixed = {{"use_qk_norm", true}, {"qk_norm_with_scale", true}}});
  return family;
}

}  // namespace millrace::layers
