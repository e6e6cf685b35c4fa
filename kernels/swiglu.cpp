#include "kernels/swiglu.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/cpu/swiglu_loops.hpp"
#include "kernels/reference/swiglu.hpp"

namespace millrace::kernels {
namespace {

constexpr std::int64_t kGrain = 1024;  // elements: less is not worth waking a thread

}  // namespace

void swiglu_forward(const Stream& stream, const Tensor& gate, const Tensor& up, const Tensor& y) {
  constexpr const char* who = "kernels.swiglu_forward";
  require_cpu(stream, who);
  check_operand(who, "gate", gate, gate.shape, {DType::f32, DType::bf16});
  check_operand(who, "up", up, gate.shape, {gate.dtype});
  check_operand(who, "y", y, gate.shape, {gate.dtype});
  if (stream.implementation() == Implementation::reference) return reference::swiglu_forward(gate, up, y);
  stream.team().for_ranges(y.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (gate.dtype == DType::f32)
      cpu::pick_swiglu_forward_f32()({gate.as<float>(), up.as<float>(), y.as<float>()}, begin, end);
    else
      cpu::pick_swiglu_forward_bf16()({gate.as<BFloat16>(), up.as<BFloat16>(), y.as<BFloat16>()}, begin, end);
  });
}

void swiglu_input_gradient(const Stream& stream, const Tensor& dy, const Tensor& gate, const Tensor& up, const Tensor& d_gate,
                           const Tensor& d_up) {
  constexpr const char* who = "kernels.swiglu_input_gradient";
  require_cpu(stream, who);
  check_operand(who, "gate", gate, gate.shape, {DType::f32, DType::bf16});
  check_operand(who, "up", up, gate.shape, {gate.dtype});
  check_operand(who, "dy", dy, gate.shape, {gate.dtype});
  check_operand(who, "d_gate", d_gate, gate.shape, {gate.dtype});
  check_operand(who, "d_up", d_up, gate.shape, {gate.dtype});
  if (stream.implementation() == Implementation::reference) return reference::swiglu_input_gradient(dy, gate, up, d_gate, d_up);
  stream.team().for_ranges(dy.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (gate.dtype == DType::f32)
      cpu::pick_swiglu_gradient_f32()({dy.as<float>(), gate.as<float>(), up.as<float>(), d_gate.as<float>(), d_up.as<float>()}, begin, end);
    else
      cpu::pick_swiglu_gradient_bf16()(
          {dy.as<BFloat16>(), gate.as<BFloat16>(), up.as<BFloat16>(), d_gate.as<BFloat16>(), d_up.as<BFloat16>()}, begin, end);
  });
}

}  // namespace millrace::kernels
