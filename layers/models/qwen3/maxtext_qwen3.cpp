#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's Qwen 3, dense: its Qwen 2 with queries and keys normed head by head in place of the biases.
const ModelFamily& maxtext_qwen3() {
  static const MaxTextFamily family(
      "qwen3",
      {.scale_in_weights = false,
       .output_dropout = false,
       .query_key_norm = QueryKeyNorm::per_head,
       .norm_names = {.before_attention = "pre_self_attention_layer_norm", .before_mlp = "post_self_attention_layer_norm"}},
      {.fixed = {{"use_qk_norm", true}, {"qk_norm_with_scale", true}}});
  return family;
}

}  // namespace millrace::layers
