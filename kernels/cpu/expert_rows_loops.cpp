#include "kernels/cpu/expert_rows_loops.hpp"

#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

template <class T>
MILLRACE_INLINE void scale_row(const T* x, float weight, T* y, std::int64_t width) {
  for (std::int64_t d = 0; d < width; d += 16) store_lanes(y + d, load_lanes(x + d, width - d) * weight, width - d);
}

template <class T>
MILLRACE_INLINE void combine_rows(const RowsOfToken<T>& at, const float* weights, T* y) {
  for (std::int64_t d = 0; d < at.width; d += 16) {
    const std::int64_t left = at.width - d;
    f32x16 sum{};
    for (std::int64_t k = 0; k < at.chosen; ++k) {
      const f32x16 value = load_lanes(at.rows + at.places[k] * at.width + d, left);
      sum += weights == nullptr ? value : value * weights[k];
    }
    store_lanes(y + d, sum, left);
  }
}

template <class T>
MILLRACE_INLINE void row_products(const RowsOfToken<T>& at, const T* x, float* products) {
  for (std::int64_t k = 0; k < at.chosen; ++k) {
    const T* row = at.rows + at.places[k] * at.width;
    // Two sums, so that an addition need not wait for the previous one.
    f32x16 even{};
    f32x16 odd{};
    for (std::int64_t d = 0; d < at.width; d += 32) {
      const std::int64_t left = at.width - d;
      even += load_lanes(x + d, left) * load_lanes(row + d, left);
      if (left <= 16) break;
      odd += load_lanes(x + d + 16, left - 16) * load_lanes(row + d + 16, left - 16);
    }
    products[k] = sum_lanes(even + odd);
  }
}

}  // namespace

namespace MILLRACE_ISA {

void scale_row_f32(const float* x, float weight, float* y, std::int64_t width) { scale_row(x, weight, y, width); }
void scale_row_bf16(const BFloat16* x, float weight, BFloat16* y, std::int64_t width) { scale_row(x, weight, y, width); }
void combine_rows_f32(const RowsOfToken<float>& at, const float* weights, float* y) { combine_rows(at, weights, y); }
void combine_rows_bf16(const RowsOfToken<BFloat16>& at, const float* weights, BFloat16* y) { combine_rows(at, weights, y); }
void row_products_f32(const RowsOfToken<float>& at, const float* x, float* products) { row_products(at, x, products); }
void row_products_bf16(const RowsOfToken<BFloat16>& at, const BFloat16* x, float* products) { row_products(at, x, products); }

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
