#include "kernels/activation.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/cpu/activation_loops.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/reference/activation.hpp"

namespace millrace::kernels {
namespace {

constexpr std::int64_t kGrain = 1024;  // elements: less is not worth waking a thread

// `each(begin, end)` of ranges of the elements, from the loops of the operands' dtype.
template <class Full, class Half>
void for_elements(const ExecutionContext& context, const Tensor& x, Full&& full, Half&& half) {
  context.team().for_ranges(x.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      full(begin, end);
    else
      half(begin, end);
  });
}

}  // namespace

void activation_forward(const ExecutionContext& context, Activation activation, const Tensor& x, const Tensor& y) {
  constexpr const char* who = "kernels.activation_forward";
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "y", y, x.shape, {x.dtype});
  if (context.on_cuda()) return cuda::activation_forward(context, activation, x, y);
  if (context.implementation() == Implementation::reference) return reference::activation_forward(activation, x, y);
  const auto loops = [&]<class T>(T) { return cpu::ActivationForward<T>{activation, x.as<T>(), y.as<T>()}; };
  for_elements(
      context, x, [&](auto begin, auto end) { cpu::pick_activation_forward_f32()(loops(float{}), begin, end); },
      [&](auto begin, auto end) { cpu::pick_activation_forward_bf16()(loops(BFloat16{}), begin, end); });
}

void activation_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x,
                               const Tensor& dx) {
  constexpr const char* who = "kernels.activation_input_gradient";
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "dy", dy, x.shape, {x.dtype});
  check_operand(who, "dx", dx, x.shape, {x.dtype});
  if (context.on_cuda()) return cuda::activation_input_gradient(context, activation, dy, x, dx);
  if (context.implementation() == Implementation::reference) return reference::activation_input_gradient(activation, dy, x, dx);
  const auto loops = [&]<class T>(T) { return cpu::ActivationGradient<T>{activation, dy.as<T>(), x.as<T>(), dx.as<T>()}; };
  for_elements(
      context, x, [&](auto begin, auto end) { cpu::pick_activation_gradient_f32()(loops(float{}), begin, end); },
      [&](auto begin, auto end) { cpu::pick_activation_gradient_bf16()(loops(BFloat16{}), begin, end); });
}

void glu_forward(const ExecutionContext& context, Activation activation, const Tensor& gate, const Tensor& up, const Tensor& y) {
  constexpr const char* who = "kernels.glu_forward";
  check_operand(who, "gate", gate, gate.shape, {DType::f32, DType::bf16});
  check_operand(who, "up", up, gate.shape, {gate.dtype});
  check_operand(who, "y", y, gate.shape, {gate.dtype});
  if (context.on_cuda()) return cuda::glu_forward(context, activation, gate, up, y);
  if (context.implementation() == Implementation::reference) return reference::glu_forward(activation, gate, up, y);
  const auto loops = [&]<class T>(T) { return cpu::GluForward<T>{activation, gate.as<T>(), up.as<T>(), y.as<T>()}; };
  for_elements(
      context, gate, [&](auto begin, auto end) { cpu::pick_glu_forward_f32()(loops(float{}), begin, end); },
      [&](auto begin, auto end) { cpu::pick_glu_forward_bf16()(loops(BFloat16{}), begin, end); });
}

void glu_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& gate, const Tensor& up,
                        const Tensor& d_gate, const Tensor& d_up) {
  constexpr const char* who = "kernels.glu_input_gradient";
  check_operand(who, "gate", gate, gate.shape, {DType::f32, DType::bf16});
  check_operand(who, "up", up, gate.shape, {gate.dtype});
  check_operand(who, "dy", dy, gate.shape, {gate.dtype});
  check_operand(who, "d_gate", d_gate, gate.shape, {gate.dtype});
  check_operand(who, "d_up", d_up, gate.shape, {gate.dtype});
  if (context.on_cuda()) return cuda::glu_input_gradient(context, activation, dy, gate, up, d_gate, d_up);
  if (context.implementation() == Implementation::reference) return reference::glu_input_gradient(activation, dy, gate, up, d_gate, d_up);
  const auto loops = [&]<class T>(T) {
    return cpu::GluGradient<T>{activation, dy.as<T>(), gate.as<T>(), up.as<T>(), d_gate.as<T>(), d_up.as<T>()};
  };
  for_elements(
      context, gate, [&](auto begin, auto end) { cpu::pick_glu_gradient_f32()(loops(float{}), begin, end); },
      [&](auto begin, auto end) { cpu::pick_glu_gradient_bf16()(loops(BFloat16{}), begin, end); });
}

}  // namespace millrace::kernels
