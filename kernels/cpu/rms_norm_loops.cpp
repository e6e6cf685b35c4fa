#include "kernels/cpu/rms_norm_loops.hpp"

#include "kernels/cpu/column_sums.hpp"
#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Number of rows whose sums are computed before any of them is written, so that a sum need not wait for what follows the previous one.
constexpr std::int64_t kRows = 4;

/// The reciprocal of a row's root mean square.
template <class T>
MILLRACE_INLINE float reciprocal_of(const T* x, std::int64_t width, float epsilon) {
  // Two sums, so that an addition need not wait for the previous one.
  f32x16 even{};
  f32x16 odd{};
  for (std::int64_t d = 0; d < width; d += 32) {
    const f32x16 first = load_lanes(x + d, width - d);
    even += first * first;
    if (d + 16 >= width) break;
    const f32x16 second = load_lanes(x + d + 16, width - d - 16);
    odd += second * second;
  }
  return 1.0F / __builtin_sqrtf(sum_lanes(even + odd) / static_cast<float>(width) + epsilon);
}

template <class T>
MILLRACE_INLINE void forward(const RmsNormForward<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = at.width;
  for (std::int64_t first = begin; first < end; first += kRows) {
    const std::int64_t last = smaller(first + kRows, end);
    for (std::int64_t t = first; t < last; ++t) at.r[t] = reciprocal_of(at.x + t * width, width, at.epsilon);
    for (std::int64_t t = first; t < last; ++t) {
      const T* x = at.x + t * width;
      T* y = at.y + t * width;
      const float* w = at.w + t % at.sets * width;
      const float r = at.r[t];
      for (std::int64_t d = 0; d < width; d += 16) {
        const f32x16 normal = load_lanes(x + d, width - d) * r;
        const f32x16 weight = load_lanes(w + d, width - d) + at.offset;
        store_lanes(y + d, (at.round_first ? round_to<T>(normal) : normal) * weight, width - d);
      }
    }
  }
}

template <class T>
MILLRACE_INLINE void input_gradient(const RmsNormInputGradient<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = at.width;
  for (std::int64_t t = begin; t < end; ++t) {
    const T* x = at.x + t * width;
    const T* dy = at.dy + t * width;
    const T* addend = at.addend == nullptr ? nullptr : at.addend + t * width;
    T* dx = at.dx + t * width;
    const float* w = at.w + t % at.sets * width;
    f32x16 sum{};
    for (std::int64_t d = 0; d < width; d += 16)
      sum += load_lanes(dy + d, width - d) * (load_lanes(w + d, width - d) + at.offset) * load_lanes(x + d, width - d);
    const float r = at.r[t];
    const float along = sum_lanes(sum) / static_cast<float>(width) * r * r;
    for (std::int64_t d = 0; d < width; d += 16) {
      const f32x16 g = load_lanes(dy + d, width - d) * (load_lanes(w + d, width - d) + at.offset);
      f32x16 result = (g - load_lanes(x + d, width - d) * along) * r;
      if (addend != nullptr) result += load_lanes(addend + d, width - d);
      store_lanes(dx + d, result, width - d);
    }
  }
}

template <class T>
MILLRACE_INLINE void weight_gradient(const RmsNormWeightGradient<T>& at, std::int64_t begin, std::int64_t end) {
  add_column_sums(
      at.rows, begin, end, at.dw, [&](std::int64_t row, std::int64_t column, std::int64_t left) __attribute__((always_inline)) {
        const std::int64_t place = row * at.sets + at.set, first = place * at.width + column;
        return load_lanes(at.dy + first, left) * (load_lanes(at.x + first, left) * at.r[place]);
      });
}

}  // namespace

namespace MILLRACE_ISA {

void rms_norm_forward_f32(const RmsNormForward<float>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void rms_norm_forward_bf16(const RmsNormForward<BFloat16>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void rms_norm_input_gradient_f32(const RmsNormInputGradient<float>& at, std::int64_t begin, std::int64_t end) {
  input_gradient(at, begin, end);
}
void rms_norm_input_gradient_bf16(const RmsNormInputGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  input_gradient(at, begin, end);
}
void rms_norm_weight_gradient_f32(const RmsNormWeightGradient<float>& at, std::int64_t begin, std::int64_t end) {
  weight_gradient(at, begin, end);
}
void rms_norm_weight_gradient_bf16(const RmsNormWeightGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  weight_gradient(at, begin, end);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
