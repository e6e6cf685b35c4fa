#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's GPT-OSS: attention with sinks and biases, a sliding window in the first of every two layers, YaRN in all, and experts with
/// biases and a clamped gate in place of every MLP.
const ModelFamily& maxtext_gpt_oss() {
  static const MaxTextFamily family(
      "gpt_oss",
      {.bias = true,
       .sinks = true,
       .scale_in_weights = false,
       .norm_names = {.before_attention = "pre_self_attention_layer_norm", .before_mlp = "post_self_attention_layer_norm"},
       .attention_module = "GptOssAttention",
       .experts = MaxTextExperts{.module = "GptOssMlp", .bias = true, .clamped = true, .own_width = false}},
      {.yarn = true,
       .kinds = {LayerKind::sliding, LayerKind::full},
       .fixed = {{"attention_bias", true}, {"attention_sink", true}, {"mlp_bias", true}, {"inhomogeneous_layer_cycle_interval", 2}}});
  return family;
}

}  // namespace millrace::layers
