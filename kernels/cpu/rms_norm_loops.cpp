#include "kernels/cpu/rms_norm_loops.hpp"

#include "kernels/cpu/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kBlockRows = 64;      // rows whose weight gradients are summed before they meet the accumulator
constexpr std::int64_t kBlockColumns = 256;  // columns of that sum: 1 KiB, stays in the first cache

template <class T>
MILLRACE_INLINE void forward(const RmsNormForward<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = at.width;
  for (std::int64_t t = begin; t < end; ++t) {
    const T* x = at.x + t * width;
    T* y = at.y + t * width;
    // Two sums, so that an addition need not wait for the one before.
    f32x16 even{};
    f32x16 odd{};
    for (std::int64_t d = 0; d < width; d += 32) {
      const f32x16 first = load_lanes(x + d, width - d);
      even += first * first;
      if (d + 16 >= width) break;
      const f32x16 second = load_lanes(x + d + 16, width - d - 16);
      odd += second * second;
    }
    const float r = 1.0F / __builtin_sqrtf(sum_lanes(even + odd) / static_cast<float>(width) + at.epsilon);
    at.r[t] = r;
    for (std::int64_t d = 0; d < width; d += 16)
      store_lanes(y + d, round_to<T>(load_lanes(x + d, width - d) * r) * load_lanes(at.w + d, width - d), width - d);
  }
}

template <class T>
MILLRACE_INLINE void input_gradient(const RmsNormInputGradient<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = at.width;
  for (std::int64_t t = begin; t < end; ++t) {
    const T* x = at.x + t * width;
    const T* dy = at.dy + t * width;
    T* dx = at.dx + t * width;
    f32x16 sum{};
    for (std::int64_t d = 0; d < width; d += 16)
      sum += load_lanes(dy + d, width - d) * load_lanes(at.w + d, width - d) * load_lanes(x + d, width - d);
    const float r = at.r[t];
    const float along = sum_lanes(sum) / static_cast<float>(width) * r * r;
    for (std::int64_t d = 0; d < width; d += 16) {
      const f32x16 g = load_lanes(dy + d, width - d) * load_lanes(at.w + d, width - d);
      store_lanes(dx + d, (g - load_lanes(x + d, width - d) * along) * r, width - d);
    }
  }
}

template <class T>
MILLRACE_INLINE void weight_gradient_block(const RmsNormWeightGradient<T>& at, std::int64_t row, std::int64_t rows, std::int64_t column,
                                           std::int64_t columns) {
  f32x16 sum[kBlockColumns / 16] = {};
  for (std::int64_t t = row; t < row + rows; ++t) {
    const T* dy = at.dy + t * at.width + column;
    const T* x = at.x + t * at.width + column;
    const float r = at.r[t];
    for (std::int64_t d = 0; d < columns; d += 16) sum[d / 16] += load_lanes(dy + d, columns - d) * (load_lanes(x + d, columns - d) * r);
  }
  float* dw = at.dw + column;
  for (std::int64_t d = 0; d < columns; d += 16) store_lanes(dw + d, load_lanes(dw + d, columns - d) + sum[d / 16], columns - d);
}

template <class T>
MILLRACE_INLINE void weight_gradient(const RmsNormWeightGradient<T>& at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = 0; row < at.rows; row += kBlockRows) {
    const std::int64_t rows = at.rows - row < kBlockRows ? at.rows - row : kBlockRows;
    for (std::int64_t column = begin; column < end; column += kBlockColumns)
      weight_gradient_block(at, row, rows, column, end - column < kBlockColumns ? end - column : kBlockColumns);
  }
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
