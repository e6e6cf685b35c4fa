#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's GPT-3: LayerNorms whose scale is stored minus 1, learned positions, projections with biases, an MLP with its own norm.
const ModelFamily& gpt3() {
  static const MaxTextFamily family("gpt3",
                                    {.rotary = false,
                                     .bias = true,
                                     .scale_in_weights = false,
                                     .split_axis = true,
                                     .layer_norm = true,
                                     .shares_kv = true,
                                     .equal_heads = true,
                                     .norm_names = {.before_attention = "pre_self_attention_norm", .before_mlp = "mlp.mlp_layer_norm"}});
  return family;
}

}  // namespace millrace::layers
