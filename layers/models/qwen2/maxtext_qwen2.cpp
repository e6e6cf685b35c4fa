#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's Qwen 2 and 2.5: its Llama 2 with biases on queries, keys and values, scores that are scaled, and no dropout on a layer's
/// output.
const ModelFamily& maxtext_qwen2() {
  static const MaxTextFamily family(
      "qwen2",
      {.qkv_bias = true,
       .scale_in_weights = false,
       .output_dropout = false,
       .norm_names = {.before_attention = "pre_self_attention_layer_norm", .before_mlp = "post_self_attention_layer_norm"}},
      {.fixed = {{"attention_bias", true}}});
  return family;
}

}  // namespace millrace::layers
