#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/layer_spec.hpp"
#include "layers/model_config.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// How a block of MaxText weighs the experts that a token chose. s are the scores of the chosen ones.
enum class MaxTextWeights : std::uint8_t {
  softmax,      // softmax(s), divided by its sum with norm_topk_prob
  scaled,       // s · routed_scaling_factor; the scores of a sigmoid or a √softplus are divided by their sum before
  sigmoid,      // σ(s), which multiplies the expert's input
  probability,  // the experts' parts of the softmax over all of them, divided by their sum with norm_topk_prob
};

/// Differences between the mixtures of experts of MaxText's blocks that no key expresses. Paths are those in a layer.
struct MaxTextExperts {
  const char* module = "MoeBlock_0";  // with the router (gate) and the stacks wi_0, wi_1 and wo
  MaxTextWeights weights = MaxTextWeights::softmax;
  bool bias = false;             // on the products of every expert
  bool clamped = false;          // the gate is clamped by mlp_activations_limit, and its activation is σ (GPT-OSS)
  bool own_width = true;         // experts have a width of their own, moe_mlp_dim; else they are as wide as an MLP
  const char* shared = nullptr;  // the MLP of every token, of the width of shared_experts experts; nullptr: the block has none
  bool one_shared = false;       // there is always one such expert, whatever shared_experts says
  // The kernel [D, 1] whose product with a token, through a sigmoid, multiplies the result of that MLP. nullptr: the block has none.
  const char* shared_gate = nullptr;
  bool branch = false;       // ExpertsSpec::branch, with scales of experts; the shared MLP is as wide as shared_experts MLPs
  bool optional = false;     // num_experts = 1 means that layers have an MLP
  bool dense_first = false;  // the first first_num_dense_layers layers have an MLP
  // MaxText decides by the name of the model how it chooses experts: with one of these prefixes from the best groups, and by the bias
  // alone, which their weights then do not have. The names are those of exported models that choose in this way, and of others.
  std::vector<std::string_view> choosing_prefixes = {};
  std::string_view choosing_name = {}, other_name = {};
};

/// The experts of a layer by the keys of a model. Throws Error(model) naming the key, its value and what is expected.
[[nodiscard]] ExpertsSpec maxtext_experts_spec(const ModelConfig& config, const MaxTextExperts& experts);

/// MaxText's mixture of experts: x [T, D] → [T, D], D = model.width: each token the sum of its experts' results by weight, in the order in
/// which they were chosen. The router reads `router_input` [T, D], which is x but for Gemma 4. Parameters under `<layer>.<module>`, E
/// experts of width F:
///   gate.kernel [D, E], in the compute dtype unless spec.router_in_f32; gate.bias f32 [E], if the route has a bias
///   per_expert_scale f32 [E], if experts have scales
///   wi_0, wi_1 [E, D, F], wo [E, F, D]; wi_0_bias, wi_1_bias f32 [E, F] and wo_bias f32 [E, D], if experts have biases
/// A program has the stacks and biases of its own experts only. Declares the router's loss terms (router_losses.hpp).
/// `meanwhile` and labels: as of sum_of_experts.
[[nodiscard]] runtime::ValueId maxtext_experts(runtime::ProgramBuilder& builder, runtime::ValueId x, runtime::ValueId router_input,
                                               const ModelSpec& model, const ExpertsSpec& spec, const std::string& layer,
                                               const std::string& module, const std::function<void()>& meanwhile);

}  // namespace millrace::layers
