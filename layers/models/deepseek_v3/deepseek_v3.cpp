#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// DeepSeek-V3 (arXiv 2412.19437) and models of the same architecture, such as Kimi K2: latent attention, and after the first layers
/// experts of which one is every token's. Its modules that predict further tokens are part of the model where model.mtp_layers says so;
/// transformers computes none, whatever num_nextn_predict_layers says.
const ModelFamily& deepseek_v3() {
  static const StandardFamily family(
      {.name = "deepseek_v3",
       .keys = expert_keys(
           latent_keys({"model.rope_interleaved", "model.moe_intermediate_size", "model.norm_topk_prob", "model.first_dense_layers",
                        "model.shared_experts", "model.routed_scaling_factor", "model.routing_groups", "model.kept_routing_groups"}))},
      {.experts_of = sigmoid_experts},
      {.model_type = "deepseek_v3",
       .architecture = "DeepseekV3ForCausalLM",
       .attention_bias = true,
       .heads = 128,
       .vocab_size = 129280,
       .positions = 4096,
       .rope = {.scales_scores = true},
       .routed = HuggingFaceRoutedExperts{.normalise = true},
       .latent = HuggingFaceLatent{},
       .also_named = {"kimi_k2"}});
  return family;
}

}  // namespace millrace::layers
