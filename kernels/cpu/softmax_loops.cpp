#include "kernels/cpu/softmax_loops.hpp"

#include "kernels/cpu/softmax_row.hpp"

namespace millrace::kernels::cpu {
namespace {

template <class T>
MILLRACE_INLINE void forward(const T* x, std::int64_t width, std::int64_t begin, std::int64_t end, T* y) {
  for (std::int64_t t = begin; t < end; ++t) {
    const T* row = x + t * width;
    const SoftmaxRow softmax = softmax_row(row, width);
    for (std::int64_t i = 0; i < width; i += 16)
      store_lanes(y + t * width + i, exponential(load_logits(row + i, width - i) - softmax.maximum) / softmax.sum, width - i);
  }
}

template <class T>
MILLRACE_INLINE void backward(const T* dy, const T* y, std::int64_t width, std::int64_t begin, std::int64_t end, T* dx) {
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t first = t * width;
    f32x16 sums{};
    for (std::int64_t i = 0; i < width; i += 16) sums += load_lanes(dy + first + i, width - i) * load_lanes(y + first + i, width - i);
    const float mean = sum_lanes(sums);
    for (std::int64_t i = 0; i < width; i += 16)
      store_lanes(dx + first + i, load_lanes(y + first + i, width - i) * (load_lanes(dy + first + i, width - i) - mean), width - i);
  }
}

}  // namespace

namespace MILLRACE_ISA {

void softmax_rows_f32(const float* x, std::int64_t width, std::int64_t begin, std::int64_t end, float* y) {
  forward(x, width, begin, end, y);
}
void softmax_rows_bf16(const BFloat16* x, std::int64_t width, std::int64_t begin, std::int64_t end, BFloat16* y) {
  forward(x, width, begin, end, y);
}
void softmax_gradient_rows_f32(const float* dy, const float* y, std::int64_t width, std::int64_t begin, std::int64_t end, float* dx) {
  backward(dy, y, width, begin, end, dx);
}
void softmax_gradient_rows_bf16(const BFloat16* dy, const BFloat16* y, std::int64_t width, std::int64_t begin, std::int64_t end,
                                BFloat16* dx) {
  backward(dy, y, width, begin, end, dx);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
