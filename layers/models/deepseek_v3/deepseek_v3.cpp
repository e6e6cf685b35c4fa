#include "layers/models/standard_family.hpp"

namespace millrace::layers {
namespace {

/// Experts are chosen by their sigmoids plus a bias that only the choice has and that training by gradients leaves alone (section 2.1.2):
/// those of the best groups, each judged by its two best. Their weights are the sigmoids without the bias.
ExpertsSpec deepseek_v3_experts(const ModelConfig& config, kernels::Activation activation) {
  return {.experts = config.experts,
          .route = {.experts_per_token = config.experts_per_token,
                    .score = kernels::RouterScore::sigmoid,
                    .bias = kernels::RouterBias::choice,
                    .groups = config.routing_groups,
                    .kept_groups = config.kept_routing_groups,
                    .normalise = config.norm_topk_prob,
                    .sum_epsilon = 1e-20F,
                    .scale = static_cast<float>(config.routed_scaling_factor)},
          .expert = {.width = expert_width(config), .activation = activation},
          .shared = shared_expert_of(config, activation),
          .route_bias_trained = false};
}

}  // namespace

/// DeepSeek-V3 (arXiv 2412.19437) and models of the same architecture, such as Kimi K2: latent attention, and after the first layers
/// experts of which one is every token's. Its modules that predict more than one token are not part of the model here.
const ModelFamily& deepseek_v3() {
  static const StandardFamily family(
      {.name = "deepseek_v3",
       .keys = expert_keys(
           latent_keys({"model.rope_interleaved", "model.moe_intermediate_size", "model.norm_topk_prob", "model.first_dense_layers",
                        "model.shared_experts", "model.routed_scaling_factor", "model.routing_groups", "model.kept_routing_groups"})),
       .layer_prefix = "model.layers."},
      {.experts_of = deepseek_v3_experts},
      {.model_type = "deepseek_v3",
       .architecture = "DeepseekV3ForCausalLM",
       .attention_bias = true,
       .heads = 128,
       .vocab_size = 129280,
       .positions = 4096,
       .rope = {.scales_scores = true},
       .routed = HuggingFaceRoutedExperts{.normalise = true},
       .latent = HuggingFaceLatent{}});
  return family;
}

}  // namespace millrace::layers
