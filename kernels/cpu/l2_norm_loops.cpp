#include "kernels/cpu/l2_norm_loops.hpp"

#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

template <class T>
MILLRACE_INLINE void forward(const L2NormForward<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = at.width;
  for (std::int64_t t = begin; t < end; ++t) {
    const T* x = at.x + t * width;
    const float r = 1.0F / __builtin_sqrtf(dot_product(x, x, width) + at.epsilon);
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
    const float r = at.r[t], along = dot_product(dy, x, width) * r * r;
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
