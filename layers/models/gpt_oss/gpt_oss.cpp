#include <algorithm>
#include <cmath>

#include "layers/models/standard_family.hpp"

namespace millrace::layers {
namespace {

/// Experts are chosen by their logits, a bias among them, and weighed by the softmax over the chosen ones. Gates are clamped.
ExpertsSpec gpt_oss_experts(const ModelConfig& config, kernels::Activation activation) {
  return {.experts = config.experts,
          .route = {.experts_per_token = config.experts_per_token,
                    .score = kernels::RouterScore::logit,
                    .weight = kernels::RouterWeight::softmax},
          .expert = {.width = expert_width(config),
                     .activation = activation,
                     .bias = true,
                     .clamp = kernels::ClampedGluOptions{.limit = static_cast<float>(config.swiglu_limit),
                                                         .steepness = static_cast<float>(config.swiglu_alpha),
                                                         .offset = 1.0F}},
          .router_bias = true,
          .capacity_factor = config.capacity_factor};
}

/// Every layer has sinks, and no activation but the clamped gate.
std::vector<std::string_view> gpt_oss_keys() {
  std::vector<std::string_view> keys = expert_keys(standard_keys({"model.attention_bias", "model.swiglu_limit", "model.swiglu_alpha"}));
  std::erase(keys, "model.hidden_act");
  std::erase(keys, "model.attention_sinks");
  return keys;
}

}  // namespace

/// GPT-OSS (arXiv 2508.10925): attention with sinks and biases, a sliding window in every other layer, YaRN, and experts with biases and a
/// clamped gate in every layer.
const ModelFamily& gpt_oss() {
  static const StandardFamily family(
      {.name = "gpt_oss", .keys = gpt_oss_keys()},
      {.sinks = true,
       .needs_experts = true,
       .round_first = false,
       .experts = {.router = "router", .storage = ExpertStorage::interleaved_input_major},
       .experts_of = gpt_oss_experts},
      {.model_type = "gpt_oss",
       .architecture = "GptOssForCausalLM",
       .reads_activation = false,
       .attention_bias = true,
       .has_attention_bias = true,
       .head_dim = 64,
       .heads = 64,
       .kv_heads = 8,
       .vocab_size = 201088,
       .positions = 131072,
       .epsilon = 1e-5,
       .window = 128,
       .full_every = 2,
       .reads_layer_types = true,
       .rope = {.theta = 150000.0, .scaled = {.kind = RopeKind::yarn, .factor = 32.0, .original_max_position = 4096, .truncate = false}},
       .experts = HuggingFaceExperts{.count = 128, .per_token = 4, .balance_weight = 0.9, .has_clamp = true, .needs_some = true},
       .unread = {"experts_per_token", "initial_context_length"}});
  return family;
}

}  // namespace millrace::layers
