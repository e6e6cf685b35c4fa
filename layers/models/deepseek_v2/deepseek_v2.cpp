#include "layers/models/standard_family.hpp"

namespace millrace::layers {
namespace {

/// An expert's weight is its part of the softmax over all experts. They are chosen from all, or from the best groups, each judged by its
/// best expert (section 2.2.2).
ExpertsSpec deepseek_v2_experts(const ModelConfig& config, kernels::Activation activation) {
  return {.experts = config.experts,
          .route = {.experts_per_token = config.experts_per_token,
                    .groups = config.routing_groups,
                    .kept_groups = config.kept_routing_groups,
                    .group_best = 1,
                    .scale = static_cast<float>(config.routed_scaling_factor)},
          .expert = {.width = expert_width(config), .activation = activation},
          .shared = shared_expert_of(config, activation)};
}

}  // namespace

/// DeepSeek-V2 and V2-Lite (arXiv 2405.04434): latent attention, whose queries have no latent vector in the Lite model, and after the first
/// layers experts of which some are every token's.
const ModelFamily& deepseek_v2() {
  static const StandardFamily family(
      {.name = "deepseek_v2",
       .keys = expert_keys(latent_keys({"model.mlp_bias", "model.moe_intermediate_size", "model.first_dense_layers", "model.shared_experts",
                                        "model.routed_scaling_factor", "model.routing_groups", "model.kept_routing_groups"}))},
      {.experts_of = deepseek_v2_experts},
      {.model_type = "deepseek_v2",
       .architecture = "DeepseekV2ForCausalLM",
       .attention_bias = true,
       .mlp_bias = true,
       .vocab_size = 32000,
       .rope = {.scales_scores = true},
       .routed = HuggingFaceRoutedExperts{.count = 64,
                                          .per_token = 0,
                                          .size = 1407,
                                          .shared = 2,
                                          .scaling_factor = 1.0,
                                          .dense_layers = 0,
                                          .groups = 0,
                                          .groups_per_token = 0,
                                          .group_best = 1,
                                          .reads_method = true,
                                          .score = "softmax"},
       .latent = HuggingFaceLatent{.reads_interleave = false}});
  return family;
}

}  // namespace millrace::layers
