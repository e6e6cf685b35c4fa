#include "kernels/cpu/swiglu_loops.hpp"

#include "kernels/cpu/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

MILLRACE_INLINE f32x16 sigmoid(f32x16 x) { return 1.0F / (1.0F + exponential(-x)); }

template <class T>
MILLRACE_INLINE void forward(const SwigluForward<T>& at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += 16) {
    const f32x16 gate = load_lanes(at.gate + i, end - i);
    store_lanes(at.y + i, gate * sigmoid(gate) * load_lanes(at.up + i, end - i), end - i);
  }
}

template <class T>
MILLRACE_INLINE void gradient(const SwigluGradient<T>& at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += 16) {
    const f32x16 gate = load_lanes(at.gate + i, end - i);
    const f32x16 up = load_lanes(at.up + i, end - i);
    const f32x16 dy = load_lanes(at.dy + i, end - i);
    const f32x16 s = sigmoid(gate);
    store_lanes(at.d_gate + i, dy * up * s * (1.0F + gate * (1.0F - s)), end - i);
    store_lanes(at.d_up + i, dy * gate * s, end - i);
  }
}

}  // namespace

namespace MILLRACE_ISA {

void swiglu_forward_f32(const SwigluForward<float>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void swiglu_forward_bf16(const SwigluForward<BFloat16>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void swiglu_gradient_f32(const SwigluGradient<float>& at, std::int64_t begin, std::int64_t end) { gradient(at, begin, end); }
void swiglu_gradient_bf16(const SwigluGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) { gradient(at, begin, end); }

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
