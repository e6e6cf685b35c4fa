#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// Qwen 3 with experts (arXiv 2505.09388): Qwen 3 whose layers, or some of them, have many small experts in place of the MLP.
const ModelFamily& qwen3_moe() {
  static const StandardFamily family(
      {.name = "qwen3_moe",
       .keys = expert_keys(
           standard_keys({"model.attention_bias", "model.moe_intermediate_size", "model.norm_topk_prob", "model.mlp_layer_types"}))},
      {.query_key_norm = QueryKeyNorm::per_head},
      {.model_type = "qwen3_moe",
       .architecture = "Qwen3MoeForCausalLM",
       .attention_bias = true,
       .kv_heads = 4,
       .positions = 32768,
       .window = 4096,
       .has_window_switch = true,
       .experts =
           HuggingFaceExperts{.count = 128, .per_token = 8, .has_size = true, .size = 768, .normalise = false, .has_dense_layers = true}});
  return family;
}

}  // namespace millrace::layers
