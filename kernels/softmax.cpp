#include "kernels/softmax.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void softmax(const ExecutionContext& context, const Tensor& x, const Tensor& y) {
  constexpr const char* component = "kernels.softmax";
  check_rank(component, "x", x, 2);
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "y", y, x.shape, {x.dtype});
  table::softmax(context, x, y);
}

void softmax_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& y, const Tensor& dx) {
  constexpr const char* component = "kernels.softmax_input_gradient";
  check_rank(component, "dy", dy, 2);
  check_operand(component, "dy", dy, dy.shape, {DType::f32, DType::bf16});
  check_operand(component, "y", y, dy.shape, {dy.dtype});
  check_operand(component, "dx", dx, dy.shape, {dy.dtype});
  table::softmax_input_gradient(context, dy, y, dx);
}

}  // namespace millrace::kernels
