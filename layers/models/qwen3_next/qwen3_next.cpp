#include "layers/models/gated_experts.hpp"
#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// Qwen3-Next: Qwen 3.5's layers (layers/models/qwen3_5), with the projections of linear attention grouped by key head, and with many small
/// experts in place of the MLP, one of which computes on every token and has a gate.
const ModelFamily& qwen3_next() {
  static const StandardFamily family(
      {.name = "qwen3_next",
       .keys = linear_attention_keys(
           expert_keys(standard_keys({"model.attention_bias", "model.moe_intermediate_size", "model.shared_expert_intermediate_size",
                                      "model.norm_topk_prob", "model.mlp_layer_types"}))),
       .ignored_prefixes = {"mtp."}},
      {.query_key_norm = QueryKeyNorm::per_head,
       .norm_offset = 1,
       .round_first = false,
       .output_gate = true,
       .grouped_delta = true,
       .experts = gated_expert_names(ExpertStorage::matrices),
       .experts_of = gated_experts},
      {.model_type = "qwen3_next",
       .architecture = "Qwen3NextForCausalLM",
       .attention_bias = true,
       .head_dim = 256,
       .heads = 16,
       .kv_heads = 2,
       .vocab_size = 151936,
       .positions = 32768,
       .rope = {.proportion = 0.25},
       .experts =
           HuggingFaceExperts{
               .count = 512, .per_token = 10, .has_size = true, .size = 512, .shared = 512, .normalise = true, .has_dense_layers = true},
       .delta_net = HuggingFaceDeltaNet{}});
  return family;
}

}  // namespace millrace::layers
