#include "kernels/cpu/embedding_loops.hpp"

#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

template <class From, class To>
MILLRACE_INLINE void convert_row(const From* x, To* y, std::int64_t width) {
  for (std::int64_t d = 0; d < width; d += 16) store_lanes(y + d, load_lanes(x + d, width - d), width - d);
}

template <class T>
MILLRACE_INLINE void embedding_gradient(const std::int32_t* tokens, std::int64_t count, const T* dy, float* gradient, std::int64_t width,
                                        std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = 0; t < count; ++t) {
    float* row = gradient + tokens[t] * width;
    for (std::int64_t d = begin; d < end; d += 16)
      store_lanes(row + d, load_lanes(row + d, end - d) + load_lanes(dy + t * width + d, end - d), end - d);
  }
}

}  // namespace

namespace MILLRACE_ISA {

void widen_row(const BFloat16* x, float* y, std::int64_t width) { convert_row(x, y, width); }
void narrow_row(const float* x, BFloat16* y, std::int64_t width) { convert_row(x, y, width); }
void embedding_gradient_f32(const std::int32_t* tokens, std::int64_t count, const float* dy, float* gradient, std::int64_t width,
                            std::int64_t begin, std::int64_t end) {
  embedding_gradient(tokens, count, dy, gradient, width, begin, end);
}
void embedding_gradient_bf16(const std::int32_t* tokens, std::int64_t count, const BFloat16* dy, float* gradient, std::int64_t width,
                             std::int64_t begin, std::int64_t end) {
  embedding_gradient(tokens, count, dy, gradient, width, begin, end);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
