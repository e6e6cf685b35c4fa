#include "kernels/context_gate.hpp"

#include <cmath>

#include "kernels/cpu/context_gate_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

static_assert(kMaxGatedStreams == max_gated_streams);

/// Calls the loops over all tokens with the operands that both calls have, and those that `fill` adds.
template <class Fill>
void over_gated_tokens(const ExecutionContext& context, const Tensor& q, const Tensor& keys, const Tensor& v, const Tensor& z,
                       void (*f32)(const ContextGate<float>&, std::int64_t, std::int64_t),
                       void (*bf16)(const ContextGate<BFloat16>&, std::int64_t, std::int64_t), Fill fill) {
  constexpr std::int64_t features = 2048;  // of the streams that are worth a thread
  const std::int64_t width = v.shape[1], k = q.shape[1] / width;
  const auto run = [&]<class T>(T, auto* loops) {
    ContextGate<T> at{.width = width,
                      .k = k,
                      .root = std::sqrt(static_cast<float>(width)),
                      .q = q.as<T>(),
                      .keys = keys.as<T>(),
                      .v = v.as<T>(),
                      .z = z.as<float>()};
    fill(at, T{});
    context.team().for_ranges(v.shape[0], features / (k * width) + 1, [&](std::int64_t begin, std::int64_t end) { loops(at, begin, end); });
  };
  if (q.dtype == DType::f32)
    run(float{}, f32);
  else
    run(BFloat16{}, bf16);
}

void context_gate_forward(const ExecutionContext& context, const Tensor& q, const Tensor& keys, const Tensor& v, const Tensor& z,
                          const Tensor& y) {
  over_gated_tokens(context, q, keys, v, z, pick_context_gate_forward_f32(), pick_context_gate_forward_bf16(),
                    [&]<class T>(ContextGate<T>& at, T) { at.y = y.as<T>(); });
}

void context_gate_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& q, const Tensor& keys, const Tensor& v,
                           const Tensor& z, const Tensor& dq, const Tensor& d_keys, const Tensor& dv) {
  over_gated_tokens(context, q, keys, v, z, pick_context_gate_gradient_f32(), pick_context_gate_gradient_bf16(),
                    [&]<class T>(ContextGate<T>& at, T) {
                      at.dy = dy.as<T>();
                      at.dq = dq.as<T>();
                      at.d_keys = d_keys.as<T>();
                      at.dv = dv.as<T>();
                    });
}

const InTable in_table[] = {
    {Backend::cpu, table::context_gate_forward, context_gate_forward},
    {Backend::cpu, table::context_gate_gradient, context_gate_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
