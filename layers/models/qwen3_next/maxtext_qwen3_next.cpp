#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's Qwen3-Next: layers of linear attention and, as the last of every cycle, one of full attention with an output gate; experts in
/// place of every MLP, one of which is every token's and has a gate. The norms of queries and keys are there whatever use_qk_norm says,
/// which must be false.
const ModelFamily& maxtext_qwen3_next() {
  static const MaxTextFamily family(
      "qwen3_next",
      {.scale_in_weights = false,
       .output_dropout = false,
       .hybrid = true,
       .query_key_norm = QueryKeyNorm::per_head,
       .norm_names = {.before_attention = "input_layernorm", .before_mlp = "post_attention_layernorm"},
       .attention_module = "attention",
       .experts =
           MaxTextExperts{
               .module = "mlp.routed_experts", .shared = "mlp.shared_expert", .one_shared = true, .shared_gate = "mlp.shared_expert_gate"}},
      {.fixed = {{"use_qk_norm_in_gdn", true}}});
  return family;
}

}  // namespace millrace::layers
