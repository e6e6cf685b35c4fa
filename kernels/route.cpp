#include "kernels/route.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check(const char* component, const Tensor& logits, const Tensor* bias, const Tensor& experts, const RouteOptions& options) {
  check_rank(component, "logits", logits, 2);
  check_operand(component, "logits", logits, logits.shape, {DType::f32, DType::bf16});
  check_route_options(component, logits.shape[1], options);
  const bool biased = options.bias != RouterBias::none;
  MILLRACE_CHECK((bias != nullptr) == biased, ExitCode::internal, component, "{}, expected {}",
                 bias != nullptr ? "a bias that no score takes" : "no bias", biased ? "one [E]" : "none");
  if (bias != nullptr) check_operand(component, "bias", *bias, {logits.shape[1]}, {DType::f32});
  check_operand(component, "experts", experts, {logits.shape[0], options.experts_per_token}, {DType::i32});
}

}  // namespace

void check_route_options(const char* component, std::int64_t experts, const RouteOptions& options) {
  const auto check = [component](bool fits, const char* what, std::int64_t found, std::int64_t max) {
    MILLRACE_CHECK(fits, ExitCode::config, component, "{} {}, expected 1 to {}", found, what, max);
  };
  check(experts >= 1 && experts <= max_experts, "experts", experts, max_experts);
  check(options.groups >= 1 && options.groups <= experts, "groups of experts", options.groups, experts);
  MILLRACE_CHECK(experts % options.groups == 0, ExitCode::config, component,
                 "{} experts in {} groups, expected a number of groups that divides them", experts, options.groups);
  check(options.kept_groups >= 1 && options.kept_groups <= options.groups, "groups to choose experts from", options.kept_groups,
        options.groups);
  const std::int64_t each = experts / options.groups, open = each * options.kept_groups;
  check(options.experts_per_token >= 1 && options.experts_per_token <= open, "experts per token", options.experts_per_token, open);
  if (options.groups > 1) check(options.group_best >= 1 && options.group_best <= each, "best experts of a group", options.group_best, each);
}

void route(const ExecutionContext& context, const Tensor& logits, const Tensor* bias, const RouteOptions& options, const Tensor& weights,
           const Tensor& experts) {
  constexpr const char* component = "kernels.route";
  check(component, logits, bias, experts, options);
  check_operand(component, "weights", weights, experts.shape, {DType::f32});
  if (options.given && context.host_readable()) check_indices(component, "expert", experts, logits.shape[1]);
  table::route(context, logits, bias, options, weights, experts);
}

void route_input_gradient(const ExecutionContext& context, const Tensor& d_weights, const Tensor& logits, const Tensor* bias,
                          const Tensor& experts, const RouteOptions& options, const Tensor& d_logits) {
  constexpr const char* component = "kernels.route_input_gradient";
  check(component, logits, bias, experts, options);
  check_operand(component, "d_weights", d_weights, experts.shape, {DType::f32});
  check_operand(component, "d_logits", d_logits, logits.shape, {logits.dtype});
  table::route_input_gradient(context, d_weights, logits, bias, experts, options, d_logits);
}

void route_bias_gradient(const ExecutionContext& context, const Tensor& d_weights, const Tensor& logits, const Tensor& bias,
                         const Tensor& experts, const RouteOptions& options, const Tensor& d_bias) {
  constexpr const char* component = "kernels.route_bias_gradient";
  MILLRACE_CHECK(options.bias == RouterBias::score, ExitCode::internal, component,
                 "the bias is not part of the score, expected one that has a gradient");
  check(component, logits, &bias, experts, options);
  check_operand(component, "d_weights", d_weights, experts.shape, {DType::f32});
  check_operand(component, "d_bias", d_bias, bias.shape, {DType::f32});
  table::route_bias_gradient(context, d_weights, logits, bias, experts, options, d_bias);
}

}  // namespace millrace::kernels
