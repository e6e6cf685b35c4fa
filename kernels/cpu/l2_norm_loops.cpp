#include "kernels/cpu/l2_norm_loops.hpp"

#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Σ a·b over a row; two sums, so that an addition need not wait for the previous one.
template <class T>
MILLRACE_INLINE float dot(const T* a, const T* b, std::int64_t width) {
  f32x16 even{}, odd{};
  for (std::int64_t d = 0; d < width; d += 32) {
    even += load_lanes(a + d, width - d) * load_lanes(b + d, width - d);
    if (d + 16 < width) odd += load_lanes(a + d + 16, width - d - 16) * load_lanes(b + d + 16, width - d - 16);
  }
  return sum_lanes(even + odd);
}

template <class T>
MILLRACE_INLINE void forward(const L2NormForward<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = at.width;
  for (std::int64_t t = begin; t < end; ++t) {
    const T* x = at.x + t * width;
    const float r = 1.0F / __builtin_sqrtf(dot(x, x, width) + at.epsilon);
    at.r[t] = r;
    for (std::int64_t d = 0; d < width; d += 16) store_lanes(at.y + t * width + d, load_lanes(x + d, width - d) * r, width - d);
  }
}

template <class T>
MILLRACE_INLINE void input_gradient(const L2NormInputGradient<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = at.width;
  for (std::int64_t t = begin; t < end; ++t) {
    const T* x = at.x + t * width;
    const T* dy = at.dy + t * width;
    const float r = at.r[t], along = dot(dy, x, width) * r * r;
    for (std::int64_t d = 0; d < width; d += 16)
      store_lanes(at.dx + t * width + d, (load_lanes(dy + d, width - d) - load_lanes(x + d, width - d) * along) * r, width - d);
  }
}

}  // namespace

namespace MILLRACE_ISA {

void l2_norm_forward_f32(const L2NormForward<float>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void l2_norm_forward_bf16(const L2NormForward<BFloat16>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void l2_norm_input_gradient_f32(const L2NormInputGradient<float>& at, std::int64_t begin, std::int64_t end) {
  input_gradient(at, begin, end);
}
void l2_norm_input_gradient_bf16(const L2NormInputGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  input_gradient(at, begin, end);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
