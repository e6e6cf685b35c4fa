#include "layers/models/standard_family.hpp"

namespace millrace::layers {
namespace {

/// Experts beside the layer's MLP, each branch with norms of its own. An expert's weight is its part of the softmax over all experts,
/// divided by the sum of those of the chosen ones, times a learned number of the expert.
ExpertsSpec gemma4_experts(const ModelConfig& config, kernels::Activation activation) {
  ExpertsSpec spec = softmax_experts(config, activation);
  spec.shared = MlpSpec{.width = config.intermediate_size, .activation = activation, .bias = config.mlp_bias};
  spec.branch = true;
  spec.expert_scales = true;
  return spec;
}

}  // namespace

/// Gemma 4, text (Google, 2026): Gemma 3 with norms that are stored as they are, scores that are not scaled, values that are normed, and a
/// number in the checkpoint by which a layer's output is multiplied. Full layers may have larger heads, of which a part is rotated, fewer
/// heads of keys, and keys that are the values too. Layers may have experts beside their MLP. In the small sizes each layer has an input of
/// its own, and the last layers attend to the keys and values of earlier ones:
///   x ← x + norm(attention(norm(x)));   x ← x + norm(norm(mlp(norm(x))) + norm(experts(norm(x))));
///   x ← x + norm(projection(gelu(gate(x)) ⊙ input));   x ← scalar·x.
const ModelFamily& gemma4() {
  static const StandardFamily family({.name = "gemma4",
                                      .keys = local_rotation_keys(expert_keys(standard_keys(
                                          {"model.attention_bias", "model.final_logit_softcapping", "model.moe_intermediate_size",
                                           "model.global_head_dim", "model.global_kv_heads", "model.share_kv", "model.per_layer_input_size",
                                           "model.per_layer_vocab_size", "model.kv_shared_layers", "model.double_wide_mlp"})))},
                                     {.norms = NormPlacement::around,
                                      .query_key_norm = QueryKeyNorm::per_head,
                                      .round_first = false,
                                      .scale_embedding = true,
                                      .unit_scale = true,
                                      .value_norm = true,
                                      .scalar = LayerScalar::frozen,
                                      .experts = {.router = "router.proj", .storage = ExpertStorage::stacks},
                                      .experts_of = gemma4_experts},
                                     {.model_type = "gemma4_text",
                                      .architecture = "Gemma4ForCausalLM",
                                      .activation = kernels::Activation::gelu,
                                      .activation_key = "hidden_activation",
                                      .gelu_is_tanh = true,
                                      .attention_bias = true,
                                      .tied = true,
                                      .head_dim = 256,
                                      .heads = 8,
                                      .kv_heads = 4,
                                      .vocab_size = 262144,
                                      .positions = 131072,
                                      .window = 512,
                                      .full_every = 6,
                                      .reads_layer_types = true,
                                      .reads_final_cap = true,
                                      .last_is_full = true,
                                      .bidirectional = BidirectionalKey::vision,
                                      .rope = {.theta = 1e6,
                                               .local_theta = 10000.0,
                                               .two_ropes = true,
                                               .scaled = {.kind = RopeKind::proportional, .proportion = 0.25},
                                               .parameters_only = true},
                                      .full_layers = HuggingFaceFullLayers{},
                                      .per_layer_inputs = HuggingFacePerLayerInputs{},
                                      .expert_branch = true});
  return family;
}

}  // namespace millrace::layers
