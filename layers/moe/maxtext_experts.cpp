#include "layers/moe/maxtext_experts.hpp"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "kernels/base/check.hpp"
#include "layers/mlp.hpp"
#include "layers/moe/capacity.hpp"
#include "layers/moe/expert_sum.hpp"
#include "layers/moe/router_losses.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

using kernels::RouterBias;
using kernels::RouterScore;
using kernels::RouterWeight;
using kernels::Shape;
using runtime::ProgramBuilder;
using runtime::ValueId;

constexpr const char* maxtext_experts_component = "layers.maxtext_experts";

/// DeepSeek's scores are divided by their sum plus this.
constexpr float deepseek_epsilon = 1e-20F;

kernels::RouteOptions maxtext_route(const ModelConfig& config, MaxTextWeights weights) {
  kernels::RouteOptions route{.experts_per_token = config.experts_per_token, .score = config.routed_score, .bias = config.routed_bias};
  switch (weights) {
    case MaxTextWeights::softmax:
      route.weight = RouterWeight::softmax;
      route.normalise = config.norm_topk_prob;
      break;
    case MaxTextWeights::scaled:
      route.normalise = route.score == RouterScore::sigmoid || route.score == RouterScore::sqrt_softplus;
      route.sum_epsilon = route.normalise ? deepseek_epsilon : 0.0F;
      route.scale = static_cast<float>(config.routed_scaling_factor);
      if (config.routing_groups > 1) route.groups = config.routing_groups, route.kept_groups = config.kept_routing_groups;
      break;
    case MaxTextWeights::sigmoid:
      route.weight = RouterWeight::sigmoid;
      break;
    case MaxTextWeights::probability:
      route.score = RouterScore::softmax;
      route.normalise = config.norm_topk_prob;
      break;
  }
  return route;
}

/// GPT-OSS's gate: the factor and the offset are constants of the block.
kernels::ClampedGluOptions maxtext_clamp(const ModelConfig& config) {
  return {.limit = static_cast<float>(config.swiglu_limit), .steepness = 1.702F, .offset = 1.0F};
}

/// The scores whose softmax the balance loss takes: those by which experts are chosen, whatever their weights are computed from.
ValueId balanced_scores(ProgramBuilder& builder, ValueId logits, ValueId bias, RouterScore score, const std::string& module) {
  using kernels::Activation;
  ValueId scores = logits;
  if (score == RouterScore::softmax) scores = runtime::softmax(builder, logits, module + ".scores");
  if (score == RouterScore::sigmoid) scores = runtime::activate(builder, Activation::sigmoid, logits, module + ".scores");
  if (score == RouterScore::sqrt_softplus) scores = runtime::activate(builder, Activation::sqrtsoftplus, logits, module + ".scores");
  return bias.valid() ? runtime::add_bias(builder, scores, bias, module + ".biased_scores") : scores;
}

}  // namespace

ExpertsSpec maxtext_experts_spec(const ModelConfig& config, const MaxTextExperts& experts) {
  const auto expect = [&](bool fits, const char* name, std::int64_t value, std::string_view what) {
    MILLRACE_CHECK(fits, ExitCode::model, maxtext_experts_component, "{}: {} = {}, expected {}", config.family, name, value, what);
  };
  expect(config.experts >= 2, "experts", config.experts, "2 or more");
  expect(config.experts_per_token >= 1 && config.experts_per_token <= config.experts, "experts_per_token", config.experts_per_token,
         fmt::format("1 to the {} experts", config.experts));
  expect(experts.own_width || expert_width(config) == config.intermediate_size, "moe_intermediate_size", expert_width(config),
         fmt::format("intermediate_size = {}", config.intermediate_size));
  const bool scales_input = experts.weights == MaxTextWeights::sigmoid;
  expect(!scales_input || config.experts_per_token == 1, "experts_per_token", config.experts_per_token, "1");
  MlpSpec expert{.width = expert_width(config), .activation = config.activation, .bias = experts.bias};
  if (experts.clamped) expert.clamp = maxtext_clamp(config);
  std::optional<MlpSpec> shared;
  const std::int64_t count = experts.one_shared ? 1 : config.shared_experts;
  const std::int64_t shared_width = experts.branch ? config.intermediate_size : expert_width(config);
  if (experts.shared != nullptr && count > 0)
    shared = {.width = count * shared_width, .activation = config.activation, .gated = config.gated_mlp, .fused = config.fused_mlp};
  return {.experts = config.experts,
          .route = maxtext_route(config, experts.weights),
          .expert = expert,
          .scale_input = scales_input,
          .shared = shared,
          .shared_gate = experts.shared_gate != nullptr,
          .branch = experts.branch,
          .expert_scales = experts.branch,
          .capacity_factor = config.capacity_factor,
          .router_in_f32 = config.float32_gate_logits,
          .balanced = config.routed_score};
}

ValueId maxtext_experts(ProgramBuilder& builder, ValueId x, ValueId router_input, const ModelSpec& model, const ExpertsSpec& spec,
                        const std::string& layer, const std::string& module, const std::function<void()>& meanwhile) {
  const std::string path = layer + "." + module;
  const std::int64_t experts = spec.experts, width = model.width, inner = spec.expert.width;
  const ValueId kernel =
      builder.parameter(path + ".gate.kernel", {width, experts}, spec.router_in_f32 ? runtime::in_f32 : runtime::ParameterForm());
  const ValueId read = spec.router_in_f32 ? runtime::to_f32(builder, router_input, module + ".gate_input") : router_input;
  const ValueId logits = runtime::linear_input_major(builder, read, kernel, module + ".gate");
  ValueId bias;
  if (spec.route.bias != RouterBias::none)
    bias = builder.parameter(path + ".gate.bias", {experts}, {.dtype = kernels::DType::f32, .chooses_experts = true});
  runtime::Routing routing = runtime::route(builder, logits, spec.route, module + ".route", bias);
  const double active = static_cast<double>(spec.route.experts_per_token) / static_cast<double>(experts);
  if (spec.expert_scales) {
    const ValueId scales = builder.parameter(path + ".per_expert_scale", {experts}, {.dtype = kernels::DType::f32, .active = active});
    routing.weights = runtime::learned_scale(builder, routing.weights, scales, module + ".expert_scale", routing.experts);
  }
  const ValueId scores = model.losses.balance_loss > 0 ? balanced_scores(builder, logits, bias, spec.balanced, module) : logits;
  router_losses(builder, {.logits = logits, .scores = scores, .experts = routing.experts}, model, module);
  const ValueId weights = weights_within_capacity(builder, routing, spec, module);
  const OwnExperts own = own_experts(builder, spec);
  const auto products = [&](ValueId rows, ValueId offsets) -> ExpertValues {
    const auto product = [&](ValueId from, const std::string& name, std::int64_t inputs, std::int64_t outputs) {
      const ValueId weight = builder.parameter(path + "." + name, {own.count, inputs, outputs}, {.active = active, .experts = own.slice});
      ValueId added;
      if (spec.expert.bias)
        added = builder.parameter(path + "." + name + "_bias", {own.count, outputs},
                                  {.dtype = kernels::DType::f32, .active = active, .experts = own.slice});
      return runtime::grouped_linear_input_major(builder, from, weight, offsets, module + "." + name, added);
    };
    const ValueId gate = product(rows, "wi_0", width, inner), up = product(rows, "wi_1", width, inner);
    return {gate, up, product(gated(builder, spec.expert, gate, up, path, module + ".glu"), "wo", inner, width)};
  };
  const ValueId none;
  const ExpertChoices choices{.x = x,
                              .experts = routing.experts,
                              .input_weights = spec.scale_input ? routing.weights : none,
                              .result_weights = spec.scale_input ? none : weights};
  return sum_of_experts(builder, spec, choices, module, products, meanwhile);
}

}  // namespace millrace::layers
