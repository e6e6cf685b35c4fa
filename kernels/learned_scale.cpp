#include "kernels/learned_scale.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/base/route_options.hpp"

namespace millrace::kernels {
namespace {

/// Checks x, its numbers, and which of them multiply it.
void check_scales(const ExecutionContext& context, const char* component, const Tensor& x, const Tensor& scales, const Tensor* which) {
  check_rank(component, "x", x, 2);
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_rank(component, "scales", scales, 1);
  check_operand(component, "scales", scales, which == nullptr ? Shape{1} : scales.shape, {DType::f32});
  if (which == nullptr) return;
  MILLRACE_CHECK(scales.shape[0] >= 1 && scales.shape[0] <= max_experts, ExitCode::internal, component,
                 "{} numbers to choose from, expected 1 to {}", scales.shape[0], max_experts);
  check_operand(component, "which", *which, x.shape, {DType::i32});
  if (context.host_readable()) check_indices(component, "number", *which, scales.shape[0]);
}

}  // namespace

void learned_scale(const ExecutionContext& context, const Tensor& x, const Tensor& scales, const Tensor* which, const Tensor& y) {
  constexpr const char* component = "kernels.learned_scale";
  check_scales(context, component, x, scales, which);
  check_operand(component, "y", y, x.shape, {x.dtype});
  table::learned_scale(context, x, scales, which, y);
}

void learned_scale_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor* which,
                                   const Tensor& d_scales) {
  constexpr const char* component = "kernels.learned_scale_weight_gradient";
  check_scales(context, component, x, d_scales, which);
  check_operand(component, "dy", dy, x.shape, {x.dtype});
  table::learned_scale_weight_gradient(context, dy, x, which, d_scales);
}

}  // namespace millrace::kernels
