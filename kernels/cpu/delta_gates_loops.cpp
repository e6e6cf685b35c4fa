#include "kernels/cpu/delta_gates_loops.hpp"

#include "kernels/cpu/column_sums.hpp"
#include "kernels/cpu/logarithm.hpp"
#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

MILLRACE_INLINE f32x16 size_of_lanes(f32x16 x) { return (f32x16)((u32x16)x & 0x7fffffffU); }

/// log(1 + eˣ); (x + |x|)/2 is max(x, 0).
MILLRACE_INLINE f32x16 softplus(f32x16 x) {
  const f32x16 size = size_of_lanes(x);
  const f32x16 rest = by_registers(
      exponential(-size), [](Register u) __attribute__((always_inline)) { return logarithm_of_one_plus(u); });
  return 0.5F * (x + size) + rest;
}
/// σ·(1 − σ), precise at both ends.
MILLRACE_INLINE f32x16 sigmoid_slope(f32x16 x) {
  const f32x16 e = exponential(-size_of_lanes(x));
  return e / ((1.0F + e) * (1.0F + e));
}

/// The operands of g for sixteen heads of a token, of which `left` count.
struct Decay {
  f32x16 x;     // a + dt_bias
  f32x16 rate;  // −exp(A_log)
};
template <class T>
MILLRACE_INLINE Decay decay_of(const DeltaGates<T>& in, std::int64_t t, std::int64_t head, std::int64_t left) {
  f32x16 bias = load_lanes(in.dt_bias + head, left), log = load_lanes(in.a_log + head, left);
  if (in.round_decay) {
    bias = round_to<T>(bias);
    log = round_to<T>(log);
  }
  return {load_lanes(in.a + t * in.heads + head, left) + bias, -exponential(log)};
}

template <class T>
MILLRACE_INLINE void forward(const DeltaGatesForward<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = at.in.heads;
  for (std::int64_t t = begin; t < end; ++t)
    for (std::int64_t head = 0; head < heads; head += 16) {
      const std::int64_t left = heads - head, i = t * heads + head;
      const Decay decay = decay_of(at.in, t, head, left);
      const f32x16 g = decay.rate * softplus(decay.x);
      store_lanes(at.g + i, at.in.round_decay ? round_to<T>(g) : g, left);
      store_lanes(at.beta + i, round_to<T>(sigmoid(load_lanes(at.in.b + i, left))), left);
    }
}

template <class T>
MILLRACE_INLINE void input_gradient(const DeltaGatesInputGradient<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = at.in.heads;
  for (std::int64_t t = begin; t < end; ++t)
    for (std::int64_t head = 0; head < heads; head += 16) {
      const std::int64_t left = heads - head, i = t * heads + head;
      const Decay decay = decay_of(at.in, t, head, left);
      store_lanes(at.da + i, decay.rate * sigmoid(decay.x) * load_lanes(at.dg + i, left), left);
      store_lanes(at.db + i, sigmoid_slope(load_lanes(at.in.b + i, left)) * load_lanes(at.dbeta + i, left), left);
    }
}

template <class T>
MILLRACE_INLINE void weight_gradient(const DeltaGatesWeightGradient<T>& at, std::int64_t begin, std::int64_t end) {
  const auto add = [&](float* sums, auto&& of) __attribute__((always_inline)) {
    add_column_sums(
        at.in.tokens, begin, end, sums, [&](std::int64_t t, std::int64_t head, std::int64_t left) __attribute__((always_inline)) {
          const Decay decay = decay_of(at.in, t, head, left);
          return decay.rate * of(decay.x) * load_lanes(at.dg + t * at.in.heads + head, left);
        });
  };
  add(
      at.d_a_log, [](f32x16 x) __attribute__((always_inline)) { return softplus(x); });
  add(
      at.d_dt_bias, [](f32x16 x) __attribute__((always_inline)) { return sigmoid(x); });
}

}  // namespace

namespace MILLRACE_ISA {

void delta_gates_forward_f32(const DeltaGatesForward<float>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void delta_gates_forward_bf16(const DeltaGatesForward<BFloat16>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void delta_gates_input_gradient_f32(const DeltaGatesInputGradient<float>& at, std::int64_t begin, std::int64_t end) {
  input_gradient(at, begin, end);
}
void delta_gates_input_gradient_bf16(const DeltaGatesInputGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  input_gradient(at, begin, end);
}
void delta_gates_weight_gradient_f32(const DeltaGatesWeightGradient<float>& at, std::int64_t begin, std::int64_t end) {
  weight_gradient(at, begin, end);
}
void delta_gates_weight_gradient_bf16(const DeltaGatesWeightGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  weight_gradient(at, begin, end);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
