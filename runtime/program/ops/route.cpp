#include "kernels/route.hpp"

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using kernels::RouteOptions;
using kernels::RouterBias;
using kernels::RouterScore;
using kernels::RouterWeight;

bool is_biased(const RouteOptions& options) { return options.bias != RouterBias::none; }

/// A number for each of a token's choices.
ValueType choices_of(const ValueType& logits, kernels::DType dtype, const RouteOptions& options) {
  return {dtype, {logits.shape.dimension(0), options.experts_per_token}};
}

// FLOPs. Comparisons are not counted; functions count as in ops/activation.cpp.

/// The FLOPs of one score.
double score_flops(RouterScore score) { return score == RouterScore::logit ? 0 : score == RouterScore::sqrt_softplus ? 14 : 4; }
/// The FLOPs of the scores by which a token chooses its experts.
double choice_flops(double experts, const RouteOptions& options) {
  const auto sums = options.groups > 1 ? static_cast<double>(options.groups * options.group_best) : 0.0;
  return experts * (score_flops(options.score) + (is_biased(options) ? 1 : 0)) + sums;
}
/// The FLOPs of one weight, which is computed from the score.
double weight_flops(const RouteOptions& options) {
  return (options.weight == RouterWeight::score ? 0 : 4) + (options.normalise ? 2 : 0) + 1;
}
/// The FLOPs of the gradients of a token's chosen scores: scores and weights are computed again, then come scale, normalisation and
/// transform.
double score_gradient_flops(double experts, const RouteOptions& options) {
  const auto chosen = static_cast<double>(options.experts_per_token);
  const double again = (options.score == RouterScore::softmax ? experts : chosen) * score_flops(options.score) +
                       chosen * (options.bias == RouterBias::score ? 1 : 0);
  const double transform = options.weight == RouterWeight::score ? 0 : options.weight == RouterWeight::softmax ? 4 : 6;
  return again + chosen * (weight_flops(options) + 1 + (options.normalise ? 5 : 0) + transform);
}
/// The FLOPs from the gradients of the scores to those of the logits.
double slope_flops(double experts, const RouteOptions& options) {
  const auto chosen = static_cast<double>(options.experts_per_token);
  if (options.score == RouterScore::logit) return 0;
  if (options.score == RouterScore::softmax) return experts + 4 * chosen;
  return chosen * (options.score == RouterScore::sigmoid ? 6 : 7);
}

/// d_weights f32 [T, K], logits [T, E], experts i32 [T, K], perhaps a bias f32 [E]. Throws Error if they are not.
void check_gradient(std::string_view name, std::span<const ValueType> inputs, const RouteOptions& options) {
  rules::require(inputs.size() == (is_biased(options) ? 4U : 3U) && rules::is_matrix(inputs[1]) &&
                     inputs[0] == choices_of(inputs[1], kernels::DType::f32, options) &&
                     inputs[2] == choices_of(inputs[1], kernels::DType::i32, options) &&
                     (!is_biased(options) || rules::is_vector(inputs[3], inputs[1].shape.dimension(1))),
                 name, inputs,
                 fmt::format("d_weights f32 [T, {0}], logits [T, E], experts i32 [T, {0}]{1}", options.experts_per_token,
                             is_biased(options) ? ", bias f32 [E]" : ""));
}

/// d_weights, logits, experts, perhaps a bias → d_logits.
class RouteInputGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "route_input_gradient"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    check_gradient(name(), inputs, attributes.as<RouteOptions>());
    return {inputs[1]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<RouteOptions>();
    const auto tokens = static_cast<double>(inputs[1].shape[0]), experts = static_cast<double>(inputs[1].shape[1]);
    return {tokens * (score_gradient_flops(experts, options) + slope_flops(experts, options)), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::route_input_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::route_input_gradient(context, inputs[0], inputs[1], inputs.size() > 3 ? &inputs[3] : nullptr, inputs[2],
                                  attributes.as<RouteOptions>(), outputs[0]);
  }
};

/// d_weights, logits, experts, bias f32 [E]: adds into f32 [E].
class RouteBiasGradient final : public OperationRule {
 public:
  std::string_view name() const override { return "route_bias_gradient"; }
  bool accumulates() const override { return true; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    check_gradient(name(), inputs, attributes.as<RouteOptions>());
    return {inputs[3]};
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<RouteOptions>();
    const auto tokens = static_cast<double>(inputs[1].shape[0]), experts = static_cast<double>(inputs[1].shape[1]);
    return {tokens * score_gradient_flops(experts, options) + rules::elements(inputs[0]), rules::traffic(inputs, outputs, true)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::route_bias_gradient}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::route_bias_gradient(context, inputs[0], inputs[1], inputs[3], inputs[2], attributes.as<RouteOptions>(), outputs[0]);
  }
};

class Route final : public OperationRule {
 public:
  std::string_view name() const override { return "route"; }
  std::string_view output_suffix(std::size_t i) const override { return i == 0 ? "" : "experts"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<RouteOptions>();
    rules::require(inputs.size() == (is_biased(options) ? 2U : 1U) && rules::is_matrix(inputs[0]) &&
                       (!is_biased(options) || rules::is_vector(inputs[1], inputs[0].shape.dimension(1))),
                   name(), inputs, is_biased(options) ? "logits [T, E] and a bias f32 [E]" : "logits [T, E]");
    kernels::check_route_options("runtime.program", inputs[0].shape[1], options);
    return {choices_of(inputs[0], kernels::DType::f32, options), choices_of(inputs[0], kernels::DType::i32, options)};
  }

  void input_gradient(GradientBuilder& builder) const override {
    static const RouteInputGradient rule;
    if (!builder.wants(0)) return;
    builder.add_gradient(0, builder.append(rule, operands(builder), builder.forward().attributes, "dx")[0]);
  }

  void weight_gradient(GradientBuilder& builder) const override {
    static const RouteBiasGradient rule;
    const Attributes& attributes = builder.forward().attributes;
    if (attributes.as<RouteOptions>().bias == RouterBias::score)
      builder.append_accumulate(rule, operands(builder), {builder.accumulator(1)}, attributes, "db");
  }

  Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attributes& attributes) const override {
    const auto& options = attributes.as<RouteOptions>();
    const auto tokens = static_cast<double>(inputs[0].shape[0]), experts = static_cast<double>(inputs[0].shape[1]);
    return {tokens * choice_flops(experts, options) + rules::elements(outputs[0]) * weight_flops(options), rules::traffic(inputs, outputs)};
  }

  KernelRows kernel_rows() const override { return {&kernels::table::route}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes& attributes, kernels::Scratch) const override {
    kernels::route(context, inputs[0], inputs.size() > 1 ? &inputs[1] : nullptr, attributes.as<RouteOptions>(), outputs[0], outputs[1]);
  }

 private:
  /// The operands of both gradients.
  static std::vector<ValueId> operands(GradientBuilder& builder) {
    std::vector<ValueId> all{builder.output_gradient(0), builder.input(0), builder.output(1)};
    if (builder.forward().inputs.size() > 1) all.push_back(builder.input(1));
    return all;
  }
};

}  // namespace

Routing route(ProgramBuilder& builder, ValueId logits, const RouteOptions& options, std::string_view name, ValueId bias) {
  static const Route rule;
  std::vector<ValueId> inputs{logits};
  if (bias.valid()) inputs.push_back(bias);
  const auto results = builder.append(rule, std::move(inputs), options, name);
  return {results[0], results[1]};
}

}  // namespace millrace::runtime
