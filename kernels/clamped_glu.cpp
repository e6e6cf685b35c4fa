#include "kernels/clamped_glu.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void clamped_glu_forward(const ExecutionContext& context, const Tensor& gate, const Tensor& up, ClampedGluOptions options,
                         const Tensor& y) {
  constexpr const char* component = "kernels.clamped_glu_forward";
  check_operand(component, "gate", gate, gate.shape, {DType::f32, DType::bf16});
  check_operand(component, "up", up, gate.shape, {gate.dtype});
  check_operand(component, "y", y, gate.shape, {gate.dtype});
  table::clamped_glu_forward(context, gate, up, options, y);
}

void clamped_glu_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& gate, const Tensor& up,
                                ClampedGluOptions options, const Tensor& d_gate, const Tensor& d_up) {
  constexpr const char* component = "kernels.clamped_glu_input_gradient";
  check_operand(component, "gate", gate, gate.shape, {DType::f32, DType::bf16});
  check_operand(component, "up", up, gate.shape, {gate.dtype});
  check_operand(component, "dy", dy, gate.shape, {gate.dtype});
  check_operand(component, "d_gate", d_gate, gate.shape, {gate.dtype});
  check_operand(component, "d_up", d_up, gate.shape, {gate.dtype});
  table::clamped_glu_input_gradient(context, dy, gate, up, options, d_gate, d_up);
}

}  // namespace millrace::kernels
