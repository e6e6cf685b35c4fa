#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's Qwen 3.5, text: the layers of its Qwen3-Next. Its rotation may have sections (M-RoPE), which turn the pairs of a head by the
/// axes of an image's position; those of a text are equal. With num_experts = 1 every layer has an MLP.
const ModelFamily& maxtext_qwen3_5() {
  static const MaxTextFamily family("qwen3_5",
                                    {.scale_in_weights = false,
                                     .output_dropout = false,
                                     .hybrid = true,
                                     .query_key_norm = QueryKeyNorm::per_head,
                                     .norm_names = {.before_attention = "input_layernorm", .before_mlp = "post_attention_layernorm"},
                                     .attention_module = "attention",
                                     .experts = MaxTextExperts{.module = "mlp.routed_experts",
                                                               .shared = "mlp.shared_expert",
                                                               .one_shared = true,
                                                               .shared_gate = "mlp.shared_expert_gate",
                                                               .optional = true}},
                                    {.sections = true, .fixed = {{"use_qk_norm_in_gdn", true}}});
  return family;
}

}  // namespace millrace::layers
