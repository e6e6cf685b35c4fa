#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's Llama 2 and 3: the arithmetic of Llama with 1/√head_dim in the query kernels.
const ModelFamily& llama2() {
  static const MaxTextFamily family(
      "llama2",
      {.shares_kv = true,
       .norm_names = {.before_attention = "pre_self_attention_layer_norm", .before_mlp = "post_self_attention_layer_norm"}},
      {}, {"model.attn_logit_softcapping"});
  return family;
}

}  // namespace millrace::layers
