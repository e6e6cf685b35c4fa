#include "kernels/cpu/bias_loops.hpp"

#include "kernels/cpu/column_sums.hpp"
#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

template <class T>
MILLRACE_INLINE void forward(const BiasForward<T>& at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t)
    for (std::int64_t d = 0; d < at.width; d += 16) {
      const std::int64_t left = at.width - d;
      store_lanes(at.y + t * at.width + d, load_lanes(at.x + t * at.width + d, left) + load_lanes(at.b + d, left), left);
    }
}

template <class T>
MILLRACE_INLINE void weight_gradient(const BiasWeightGradient<T>& at, std::int64_t begin, std::int64_t end) {
  add_column_sums(
      at.rows, begin, end, at.db, [&](std::int64_t row, std::int64_t column, std::int64_t left) __attribute__((always_inline)) {
        return load_lanes(at.dy + row * at.width + column, left);
      });
}

}  // namespace

namespace MILLRACE_ISA {

void bias_forward_f32(const BiasForward<float>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void bias_forward_bf16(const BiasForward<BFloat16>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void bias_weight_gradient_f32(const BiasWeightGradient<float>& at, std::int64_t begin, std::int64_t end) {
  weight_gradient(at, begin, end);
}
void bias_weight_gradient_bf16(const BiasWeightGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  weight_gradient(at, begin, end);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
