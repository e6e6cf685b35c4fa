#include "kernels/cpu/clamped_glu_loops.hpp"

#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Comparisons with a NaN are false, so that it is not replaced by a limit.
MILLRACE_INLINE f32x16 at_most(f32x16 x, float limit) { return x > limit ? f32x16{} + limit : x; }
MILLRACE_INLINE f32x16 within(f32x16 x, float limit) {
  const f32x16 below = at_most(x, limit);
  return below < -limit ? f32x16{} - limit : below;
}

template <class T>
MILLRACE_INLINE void forward(const ClampedGluForward<T>& at, std::int64_t begin, std::int64_t end) {
  const auto [limit, steepness, offset] = at.options;
  for (std::int64_t i = begin; i < end; i += 16) {
    const f32x16 g = at_most(load_lanes(at.gate + i, end - i), limit), u = within(load_lanes(at.up + i, end - i), limit);
    store_lanes(at.y + i, (u + offset) * (g * sigmoid(steepness * g)), end - i);
  }
}

template <class T>
MILLRACE_INLINE void gradient(const ClampedGluGradient<T>& at, std::int64_t begin, std::int64_t end) {
  const auto [limit, steepness, offset] = at.options;
  for (std::int64_t i = begin; i < end; i += 16) {
    const f32x16 dy = load_lanes(at.dy + i, end - i), gate = load_lanes(at.gate + i, end - i), up = load_lanes(at.up + i, end - i);
    const f32x16 g = at_most(gate, limit), u = within(up, limit), s = sigmoid(steepness * g);
    const f32x16 d_gate = dy * (u + offset) * (s * (1.0F + steepness * g * (1.0F - s))), d_up = dy * (g * s);
    store_lanes(at.d_gate + i, gate <= limit ? d_gate : f32x16{}, end - i);
    const f32x16 below = up <= limit ? d_up : f32x16{};
    store_lanes(at.d_up + i, up >= -limit ? below : f32x16{}, end - i);
  }
}

}  // namespace

namespace MILLRACE_ISA {

void clamped_glu_forward_f32(const ClampedGluForward<float>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void clamped_glu_forward_bf16(const ClampedGluForward<BFloat16>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void clamped_glu_gradient_f32(const ClampedGluGradient<float>& at, std::int64_t begin, std::int64_t end) { gradient(at, begin, end); }
void clamped_glu_gradient_bf16(const ClampedGluGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) { gradient(at, begin, end); }

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
