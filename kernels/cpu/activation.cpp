#include "kernels/activation.hpp"

#include "kernels/cpu/activation_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 1024;  // elements; waking a thread costs more than fewer are worth

// Calls `each(begin, end)` on ranges of the elements, with the loops of the operands' dtype.
template <class Full, class Half>
void for_elements(const ExecutionContext& context, const Tensor& x, Full&& full, Half&& half) {
  context.team().for_ranges(x.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      full(begin, end);
    else
      half(begin, end);
  });
}

void activation_forward(const ExecutionContext& context, Activation activation, const Tensor& x, const Tensor& y) {
  const auto loops = [&]<class T>(T) { return ActivationForward<T>{activation, x.as<T>(), y.as<T>()}; };
  for_elements(
      context, x, [&](auto begin, auto end) { pick_activation_forward_f32()(loops(float{}), begin, end); },
      [&](auto begin, auto end) { pick_activation_forward_bf16()(loops(BFloat16{}), begin, end); });
}

void activation_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x,
                               const Tensor& dx) {
  const auto loops = [&]<class T>(T) { return ActivationGradient<T>{activation, dy.as<T>(), x.as<T>(), dx.as<T>()}; };
  for_elements(
      context, x, [&](auto begin, auto end) { pick_activation_gradient_f32()(loops(float{}), begin, end); },
      [&](auto begin, auto end) { pick_activation_gradient_bf16()(loops(BFloat16{}), begin, end); });
}

void glu_forward(const ExecutionContext& context, Activation activation, const Tensor& gate, const Tensor& up, const Tensor& y) {
  const auto loops = [&]<class T>(T) { return GluForward<T>{activation, gate.as<T>(), up.as<T>(), y.as<T>()}; };
  for_elements(
      context, gate, [&](auto begin, auto end) { pick_glu_forward_f32()(loops(float{}), begin, end); },
      [&](auto begin, auto end) { pick_glu_forward_bf16()(loops(BFloat16{}), begin, end); });
}

void glu_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& gate, const Tensor& up,
                        const Tensor& d_gate, const Tensor& d_up) {
  const auto loops = [&]<class T>(T) {
    return GluGradient<T>{activation, dy.as<T>(), gate.as<T>(), up.as<T>(), d_gate.as<T>(), d_up.as<T>()};
  };
  for_elements(
      context, gate, [&](auto begin, auto end) { pick_glu_gradient_f32()(loops(float{}), begin, end); },
      [&](auto begin, auto end) { pick_glu_gradient_bf16()(loops(BFloat16{}), begin, end); });
}

const InTable in_table[] = {
    {Backend::cpu, table::activation_forward, activation_forward},
    {Backend::cpu, table::activation_input_gradient, activation_input_gradient},
    {Backend::cpu, table::glu_forward, glu_forward},
    {Backend::cpu, table::glu_input_gradient, glu_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
