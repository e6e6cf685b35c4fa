#include "kernels/activation.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void activation_forward(const ExecutionContext& context, Activation activation, const Tensor& x, const Tensor& y) {
  constexpr const char* who = "kernels.activation_forward";
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "y", y, x.shape, {x.dtype});
  table::activation_forward(context, activation, x, y);
}

void activation_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x,
                               const Tensor& dx) {
  constexpr const char* who = "kernels.activation_input_gradient";
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "dy", dy, x.shape, {x.dtype});
  check_operand(who, "dx", dx, x.shape, {x.dtype});
  table::activation_input_gradient(context, activation, dy, x, dx);
}

void glu_forward(const ExecutionContext& context, Activation activation, const Tensor& gate, const Tensor& up, const Tensor& y) {
  constexpr const char* who = "kernels.glu_forward";
  check_operand(who, "gate", gate, gate.shape, {DType::f32, DType::bf16});
  check_operand(who, "up", up, gate.shape, {gate.dtype});
  check_operand(who, "y", y, gate.shape, {gate.dtype});
  table::glu_forward(context, activation, gate, up, y);
}

void glu_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& gate, const Tensor& up,
                        const Tensor& d_gate, const Tensor& d_up) {
  constexpr const char* who = "kernels.glu_input_gradient";
  check_operand(who, "gate", gate, gate.shape, {DType::f32, DType::bf16});
  check_operand(who, "up", up, gate.shape, {gate.dtype});
  check_operand(who, "dy", dy, gate.shape, {gate.dtype});
  check_operand(who, "d_gate", d_gate, gate.shape, {gate.dtype});
  check_operand(who, "d_up", d_up, gate.shape, {gate.dtype});
  table::glu_input_gradient(context, activation, dy, gate, up, d_gate, d_up);
}

}  // namespace millrace::kernels
