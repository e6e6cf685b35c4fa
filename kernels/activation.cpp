#include "kernels/activation.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check_parameters(const char* component, Activation activation, std::span<const Tensor> parameters) {
  MILLRACE_CHECK(parameters.size() == activation_parameters(activation), ExitCode::internal, component,
                 "{} with {} learned numbers, expected {}", to_string(activation), parameters.size(), activation_parameters(activation));
  for (const Tensor& parameter : parameters) check_operand(component, "a learned number", parameter, {1}, {DType::f32});
}

}  // namespace

void activation_forward(const ExecutionContext& context, Activation activation, const Tensor& x, const Tensor& y,
                        ActivationParameters parameters) {
  constexpr const char* component = "kernels.activation_forward";
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "y", y, x.shape, {x.dtype});
  check_parameters(component, activation, parameters);
  table::activation_forward(context, activation, x, y, parameters);
}

void activation_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x, const Tensor& dx,
                               ActivationParameters parameters) {
  constexpr const char* component = "kernels.activation_input_gradient";
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "dy", dy, x.shape, {x.dtype});
  check_operand(component, "dx", dx, x.shape, {x.dtype});
  check_parameters(component, activation, parameters);
  table::activation_input_gradient(context, activation, dy, x, dx, parameters);
}

void glu_forward(const ExecutionContext& context, Activation activation, const Tensor& gate, const Tensor& up, const Tensor& y,
                 ActivationParameters parameters) {
  constexpr const char* component = "kernels.glu_forward";
  check_operand(component, "gate", gate, gate.shape, {DType::f32, DType::bf16});
  check_operand(component, "up", up, gate.shape, {gate.dtype});
  check_operand(component, "y", y, gate.shape, {gate.dtype});
  check_parameters(component, activation, parameters);
  table::glu_forward(context, activation, gate, up, y, parameters);
}

void glu_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& gate, const Tensor& up,
                        const Tensor& d_gate, const Tensor& d_up, ActivationParameters parameters) {
  constexpr const char* component = "kernels.glu_input_gradient";
  check_operand(component, "gate", gate, gate.shape, {DType::f32, DType::bf16});
  check_operand(component, "up", up, gate.shape, {gate.dtype});
  check_operand(component, "dy", dy, gate.shape, {gate.dtype});
  check_operand(component, "d_gate", d_gate, gate.shape, {gate.dtype});
  check_operand(component, "d_up", d_up, gate.shape, {gate.dtype});
  check_parameters(component, activation, parameters);
  table::glu_input_gradient(context, activation, dy, gate, up, d_gate, d_up, parameters);
}

void activation_parameter_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x,
                                   const Tensor* up, ActivationParameters parameters, std::span<const Tensor> d_parameters) {
  constexpr const char* component = "kernels.activation_parameter_gradient";
  check_operand(component, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(component, "dy", dy, x.shape, {x.dtype});
  if (up != nullptr) check_operand(component, "up", *up, x.shape, {x.dtype});
  check_parameters(component, activation, parameters);
  check_parameters(component, activation, d_parameters);
  table::activation_parameter_gradient(context, activation, dy, x, up, parameters, d_parameters);
}

}  // namespace millrace::kernels
