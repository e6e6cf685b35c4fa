#include "kernels/cpu/layer_norm_loops.hpp"

#include "kernels/cpu/column_sums.hpp"
#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Sets lanes beyond the row's end to zero, so that they add nothing to a sum.
MILLRACE_INLINE f32x16 within(f32x16 v, std::int64_t left) {
  if (left >= 16) return v;
  float lanes[16];
  __builtin_memcpy(lanes, &v, sizeof v);
  for (std::int64_t i = left; i < 16; ++i) lanes[i] = 0.0F;
  __builtin_memcpy(&v, lanes, sizeof v);
  return v;
}

template <class T>
MILLRACE_INLINE void forward(const LayerNormForward<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = at.width;
  for (std::int64_t t = begin; t < end; ++t) {
    const T* x = at.x + t * width;
    T* y = at.y + t * width;
    f32x16 sum{};
    for (std::int64_t d = 0; d < width; d += 16) sum += load_lanes(x + d, width - d);
    const float mean = sum_lanes(sum) / static_cast<float>(width);
    f32x16 squares{};
    for (std::int64_t d = 0; d < width; d += 16) {
      const f32x16 away = within(load_lanes(x + d, width - d) - mean, width - d);
      squares += away * away;
    }
    const float r = 1.0F / __builtin_sqrtf(sum_lanes(squares) / static_cast<float>(width) + at.epsilon);
    at.m[t] = mean;
    at.r[t] = r;
    for (std::int64_t d = 0; d < width; d += 16) {
      const f32x16 normal = (load_lanes(x + d, width - d) - mean) * r;
      store_lanes(y + d, normal * (load_lanes(at.w + d, width - d) + at.offset) + load_lanes(at.b + d, width - d), width - d);
    }
  }
}

template <class T>
MILLRACE_INLINE void input_gradient(const LayerNormInputGradient<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = at.width;
  for (std::int64_t t = begin; t < end; ++t) {
    const T* x = at.x + t * width;
    const T* dy = at.dy + t * width;
    T* dx = at.dx + t * width;
    const float mean = at.m[t], r = at.r[t];
    f32x16 sum{}, products{};
    for (std::int64_t d = 0; d < width; d += 16) {
      // dy is zero beyond the end, and so is every product with it.
      const f32x16 g = load_lanes(dy + d, width - d) * (load_lanes(at.w + d, width - d) + at.offset);
      sum += g;
      products += g * ((load_lanes(x + d, width - d) - mean) * r);
    }
    const float average = sum_lanes(sum) / static_cast<float>(width);
    const float along = sum_lanes(products) / static_cast<float>(width);
    for (std::int64_t d = 0; d < width; d += 16) {
      const f32x16 g = load_lanes(dy + d, width - d) * (load_lanes(at.w + d, width - d) + at.offset);
      const f32x16 normal = (load_lanes(x + d, width - d) - mean) * r;
      store_lanes(dx + d, (g - average - normal * along) * r, width - d);
    }
  }
}

template <class T>
MILLRACE_INLINE void weight_gradient(const LayerNormWeightGradient<T>& at, std::int64_t begin, std::int64_t end) {
  add_column_sums(
      at.rows, begin, end, at.dw, [&](std::int64_t row, std::int64_t column, std::int64_t left) __attribute__((always_inline)) {
        const std::int64_t first = row * at.width + column;
        return load_lanes(at.dy + first, left) * ((load_lanes(at.x + first, left) - at.m[row]) * at.r[row]);
      });
  add_column_sums(
      at.rows, begin, end, at.db, [&](std::int64_t row, std::int64_t column, std::int64_t left) __attribute__((always_inline)) {
        return load_lanes(at.dy + row * at.width + column, left);
      });
}

}  // namespace

namespace MILLRACE_ISA {

void layer_norm_forward_f32(const LayerNormForward<float>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void layer_norm_forward_bf16(const LayerNormForward<BFloat16>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void layer_norm_input_gradient_f32(const LayerNormInputGradient<float>& at, std::int64_t begin, std::int64_t end) {
  input_gradient(at, begin, end);
}
void layer_norm_input_gradient_bf16(const LayerNormInputGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  input_gradient(at, begin, end);
}
void layer_norm_weight_gradient_f32(const LayerNormWeightGradient<float>& at, std::int64_t begin, std::int64_t end) {
  weight_gradient(at, begin, end);
}
void layer_norm_weight_gradient_bf16(const LayerNormWeightGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  weight_gradient(at, begin, end);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
