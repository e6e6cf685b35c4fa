#include "kernels/clamped_glu.hpp"

#include "kernels/cpu/clamped_glu_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 1024;  // elements; waking a thread costs more than fewer are worth

void clamped_glu_forward(const ExecutionContext& context, const Tensor& gate, const Tensor& up, ClampedGluOptions options,
                         const Tensor& y) {
  const auto run = [&]<class T>(T, auto* loop) {
    const ClampedGluForward<T> at{options, gate.as<T>(), up.as<T>(), y.as<T>()};
    context.team().for_ranges(y.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) { loop(at, begin, end); });
  };
  if (y.dtype == DType::f32)
    run(float{}, pick_clamped_glu_forward_f32());
  else
    run(BFloat16{}, pick_clamped_glu_forward_bf16());
}

void clamped_glu_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& gate, const Tensor& up,
                                ClampedGluOptions options, const Tensor& d_gate, const Tensor& d_up) {
  const auto run = [&]<class T>(T, auto* loop) {
    const ClampedGluGradient<T> at{options, dy.as<T>(), gate.as<T>(), up.as<T>(), d_gate.as<T>(), d_up.as<T>()};
    context.team().for_ranges(dy.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) { loop(at, begin, end); });
  };
  if (dy.dtype == DType::f32)
    run(float{}, pick_clamped_glu_gradient_f32());
  else
    run(BFloat16{}, pick_clamped_glu_gradient_bf16());
}

const InTable in_table[] = {
    {Backend::cpu, table::clamped_glu_forward, clamped_glu_forward},
    {Backend::cpu, table::clamped_glu_input_gradient, clamped_glu_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
