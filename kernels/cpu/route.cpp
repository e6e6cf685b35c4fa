#include "kernels/route.hpp"

#include "kernels/cpu/route_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kTokenGrain = 16;

const float* numbers(const Tensor* bias) { return bias == nullptr ? nullptr : bias->as<float>(); }

void route(const ExecutionContext& context, const Tensor& logits, const Tensor* bias, const RouteOptions& options, const Tensor& weights,
           const Tensor& experts) {
  const std::int64_t count = logits.shape[1];
  context.team().for_ranges(logits.shape[0], kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
    float* const w = weights.as<float>();
    auto* const e = experts.as<std::int32_t>();
    if (logits.dtype == DType::f32)
      pick_route_forward_f32()({logits.as<float>(), numbers(bias), w, e, count, options}, begin, end);
    else
      pick_route_forward_bf16()({logits.as<BFloat16>(), numbers(bias), w, e, count, options}, begin, end);
  });
}

void route_input_gradient(const ExecutionContext& context, const Tensor& d_weights, const Tensor& logits, const Tensor* bias,
                          const Tensor& experts, const RouteOptions& options, const Tensor& d_logits) {
  const std::int64_t count = logits.shape[1];
  context.team().for_ranges(logits.shape[0], kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
    const float* const dw = d_weights.as<float>();
    const auto* const e = experts.as<std::int32_t>();
    if (logits.dtype == DType::f32)
      pick_route_input_gradient_f32()({dw, logits.as<float>(), numbers(bias), e, d_logits.as<float>(), nullptr, count, options}, begin,
                                      end);
    else
      pick_route_input_gradient_bf16()({dw, logits.as<BFloat16>(), numbers(bias), e, d_logits.as<BFloat16>(), nullptr, count, options},
                                       begin, end);
  });
}

/// On one thread, in the order of tokens: the K numbers of a token are less work than to divide the sums among threads.
void route_bias_gradient(const ExecutionContext& /*context*/, const Tensor& d_weights, const Tensor& logits, const Tensor& bias,
                         const Tensor& experts, const RouteOptions& options, const Tensor& d_bias) {
  const std::int64_t count = logits.shape[1], tokens = logits.shape[0];
  const float* const dw = d_weights.as<float>();
  const auto* const e = experts.as<std::int32_t>();
  if (logits.dtype == DType::f32)
    pick_route_bias_gradient_f32()({dw, logits.as<float>(), numbers(&bias), e, nullptr, d_bias.as<float>(), count, options}, 0, tokens);
  else
    pick_route_bias_gradient_bf16()({dw, logits.as<BFloat16>(), numbers(&bias), e, nullptr, d_bias.as<float>(), count, options}, 0, tokens);
}

const InTable in_table[] = {
    {Backend::cpu, table::route, route},
    {Backend::cpu, table::route_input_gradient, route_input_gradient},
    {Backend::cpu, table::route_bias_gradient, route_bias_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
