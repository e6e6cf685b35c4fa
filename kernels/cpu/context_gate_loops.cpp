#include "kernels/cpu/context_gate_loops.hpp"

#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr float kGateFloor = 1e-6F;

MILLRACE_INLINE float size_of_score(float z) { return z < 0 ? -z : z; }

MILLRACE_INLINE float gate_of_score(float z) {
  const float size = size_of_score(z), root = __builtin_sqrtf(size > kGateFloor ? size : kGateFloor);
  return sigmoid(f32x16{} + (z > 0 ? root : z < 0 ? -root : 0.0F))[0];
}

/// y = x · by.
template <class T>
MILLRACE_INLINE void scale_features(const T* x, float by, std::int64_t width, T* y) {
  for (std::int64_t d = 0; d < width; d += 16) store_lanes(y + d, load_lanes(x + d, width - d) * by, width - d);
}

template <class T>
MILLRACE_INLINE void gate_forward(const ContextGate<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = at.width;
  for (std::int64_t row = begin * at.k; row < end * at.k; ++row) {
    at.z[row] = dot_product(at.q + row * width, at.keys + row * width, width) / at.root;
    scale_features(at.v + row / at.k * width, gate_of_score(at.z[row]), width, at.y + row * width);
  }
}

template <class T>
MILLRACE_INLINE void gate_gradient(const ContextGate<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = at.width, k = at.k;
  float gates[kMaxGatedStreams];
  for (std::int64_t t = begin; t < end; ++t) {
    const T* v = at.v + t * width;
    const T* dy = at.dy + t * k * width;
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t row = t * k + i;
      const float size = size_of_score(at.z[row]), gate = gate_of_score(at.z[row]);
      gates[i] = gate;
      float slope = 0;
      if (size > kGateFloor)
        slope = dot_product(dy + i * width, v, width) * gate * (1.0F - gate) / (2.0F * __builtin_sqrtf(size)) / at.root;
      scale_features(at.keys + row * width, slope, width, at.dq + row * width);
      scale_features(at.q + row * width, slope, width, at.d_keys + row * width);
    }
    for (std::int64_t d = 0; d < width; d += 16) {
      f32x16 sum{};
      for (std::int64_t i = 0; i < k; ++i) sum += load_lanes(dy + i * width + d, width - d) * gates[i];
      store_lanes(at.dv + t * width + d, sum, width - d);
    }
  }
}

}  // namespace

namespace MILLRACE_ISA {

void context_gate_forward_f32(const ContextGate<float>& at, std::int64_t begin, std::int64_t end) { gate_forward(at, begin, end); }
void context_gate_forward_bf16(const ContextGate<BFloat16>& at, std::int64_t begin, std::int64_t end) { gate_forward(at, begin, end); }
void context_gate_gradient_f32(const ContextGate<float>& at, std::int64_t begin, std::int64_t end) { gate_gradient(at, begin, end); }
void context_gate_gradient_bf16(const ContextGate<BFloat16>& at, std::int64_t begin, std::int64_t end) { gate_gradient(at, begin, end); }

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
