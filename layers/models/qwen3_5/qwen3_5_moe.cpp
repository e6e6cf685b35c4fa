#include "layers/models/gated_experts.hpp"
#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// Qwen 3.5 with experts (35B-A3B, 397B-A17B), text: Qwen 3.5's layers with Qwen3-Next's experts, which files store as stacks, in place of
/// every MLP. The weights of a token's experts are always divided by their sum.
const ModelFamily& qwen3_5_moe() {
  static const StandardFamily family(
      {.name = "qwen3_5_moe",
       .keys = linear_attention_keys(
           expert_keys(standard_keys({"model.attention_bias", "model.moe_intermediate_size", "model.shared_expert_intermediate_size"}))),
       .ignored_prefixes = {"mtp."}},
      {.query_key_norm = QueryKeyNorm::per_head,
       .needs_experts = true,
       .norm_offset = 1,
       .round_first = false,
       .output_gate = true,
       .experts = gated_expert_names(ExpertStorage::stacks),
       .experts_of = gated_experts},
      {.model_type = "qwen3_5_moe_text",
       .architecture = "Qwen3_5MoeForCausalLM",
       .attention_bias = true,
       .head_dim = 256,
       .heads = 16,
       .kv_heads = 2,
       .vocab_size = 248320,
       .positions = 32768,
       .rope = {.proportion = 0.25, .sections = true},
       .experts = HuggingFaceExperts{.count = 256, .per_token = 8, .has_size = true, .size = 512, .shared = 512, .needs_some = true},
       .delta_net = HuggingFaceDeltaNet{},
       .has_mlp_size = false});
  return family;
}

}  // namespace millrace::layers
