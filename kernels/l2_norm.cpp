#include "kernels/l2_norm.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check(const char* component, const Tensor& x, const Tensor& r) {
  check_rank(component, "x", x, 2);
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "r", r, {x.shape[0]}, {DType::f32});
}

}  // namespace

void l2_norm_forward(const ExecutionContext& context, const Tensor& x, L2NormOptions options, const Tensor& y, const Tensor& r) {
  constexpr const char* component = "kernels.l2_norm_forward";
  check(component, x, r);
  MILLRACE_CHECK(options.width == 0 || options.width == x.shape[1], ExitCode::internal, component,
                 "vectors of {} numbers, expected {} as in the options", x.shape[1], options.width);
  check_operand(component, "y", y, x.shape, {x.dtype});
  table::l2_norm_forward(context, x, options, y, r);
}

void l2_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dx) {
  constexpr const char* component = "kernels.l2_norm_input_gradient";
  check(component, x, r);
  check_operand(component, "dy", dy, x.shape, {x.dtype});
  check_operand(component, "dx", dx, x.shape, {x.dtype});
  table::l2_norm_input_gradient(context, dy, x, r, dx);
}

}  // namespace millrace::kernels
