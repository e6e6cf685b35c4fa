#include "layers/models/standard_family.hpp"

namespace millrace::layers {
namespace {

/// An expert's input is multiplied by the sigmoid of the router's score; a shared expert of the same width has every token as it is.
ExpertsSpec llama4_experts(const ModelConfig& config, kernels::Activation activation) {
  const MlpSpec expert{.width = expert_width(config), .activation = activation};
  return {.experts = config.experts,
          .route = {.experts_per_token = config.experts_per_token,
                    .score = kernels::RouterScore::logit,
                    .weight = kernels::RouterWeight::sigmoid},
          .expert = expert,
          .scale_input = true,
          .shared = expert};
}

}  // namespace

/// Llama 4, its text model (Meta, 2025): layers with a rotation attend to their own chunk; every fourth layer has none, and attends to all
/// earlier tokens with queries that grow with the position. Experts in all layers, or in every n-th.
const ModelFamily& llama4() {
  static const StandardFamily family(
      {.name = "llama4",
       .keys = expert_keys(standard_keys({"model.attention_bias", "model.moe_intermediate_size", "model.mlp_layer_types",
                                          "model.use_qk_norm", "model.attn_temperature_tuning", "model.attn_scale", "model.floor_scale"}))},
      {.interleaved = true,
       .mlp = "feed_forward",
       .experts = {.module = "feed_forward", .router = "router", .storage = ExpertStorage::stacks_input_major, .shared = "shared_expert"},
       .experts_of = llama4_experts},
      {.model_type = "llama4_text",
       .architecture = "Llama4ForCausalLM",
       .attention_bias = true,
       .head_dim = 128,
       .heads = 40,
       .kv_heads = 8,
       .positions = 131072,
       .epsilon = 1e-5,
       .rope = {.theta = 5e5},
       .experts = HuggingFaceExperts{.count = 16, .per_token = 1, .has_moe_layers = true, .dense_size = 16384},
       .no_rope = HuggingFaceNoRope{}});
  return family;
}

}  // namespace millrace::layers
