#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's DeepSeek, version 2 and 3: latent attention, layers with an MLP before those with experts, one of which is every token's.
///   x ← x + attention(norm x);   x ← x + (mlp or experts)(norm x).
/// Under the names of version 3 a router's bias takes part in the choice of experts alone, and experts come in groups; under others the
/// bias is part of the score, and there are no groups.
const ModelFamily& maxtext_deepseek() {
  static const MaxTextFamily family(
      "deepseek",
      {.scale_in_weights = false,
       .equal_heads = true,
       .hyper = true,
       .engram = true,
       .norm_names = {.before_attention = "pre_self_attention_layer_norm", .before_mlp = "post_self_attention_layer_norm"},
       .experts = MaxTextExperts{.module = "DeepSeekMoeBlock_0.MoeBlock_0",
                                 .weights = MaxTextWeights::scaled,
                                 .shared = "DeepSeekMoeBlock_0.shared_experts",
                                 .dense_first = true,
                                 .choosing_prefixes = {"deepseek3", "deepseek4"},
                                 .choosing_name = "deepseek3-671b",
                                 .other_name = "deepseek2-16b"},
       .latent = true},
      {.yarn = true, .fixed = {{"attention_type", "mla"}, {"use_mhc_pallas_kernel", false}}}, {"model.attn_logit_softcapping"});
  return family;
}

}  // namespace millrace::layers
