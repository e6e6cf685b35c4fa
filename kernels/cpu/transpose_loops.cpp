#include "kernels/cpu/transpose_loops.hpp"

#include "kernels/cpu/vector.hpp"

namespace millrace::kernels::cpu {
namespace {

/// One stage of a butterfly: of rows i and i + Step, exchange the blocks of Step lanes off the diagonal.
template <int Step>
MILLRACE_INLINE void exchange(f32x16 (&row)[16]) {
  i32x16 upper, lower;
  for (int lane = 0; lane < 16; ++lane) {
    const bool high = (lane & Step) != 0;
    upper[lane] = high ? 16 + lane - Step : lane;
    lower[lane] = high ? 16 + lane : lane + Step;
  }
  for (int i = 0; i < 16; ++i) {
    if ((i & Step) != 0) continue;
    const f32x16 a = row[i], b = row[i + Step];
    row[i] = __builtin_shuffle(a, b, upper);
    row[i + Step] = __builtin_shuffle(a, b, lower);
  }
}

template <class From, class To>
MILLRACE_INLINE void transpose(const From* in, std::int64_t rows, std::int64_t columns, To* out, std::int64_t begin, std::int64_t end) {
  for (std::int64_t column = begin; column < end; column += 16) {
    const std::int64_t wide = end - column < 16 ? end - column : 16;
    for (std::int64_t first = 0; first < rows; first += 16) {
      const std::int64_t tall = rows - first < 16 ? rows - first : 16;
      f32x16 row[16];
      for (std::int64_t i = 0; i < 16; ++i) {
        const From* from = in + (first + i) * columns + column;
        row[i] = i >= tall ? f32x16{} : wide == 16 ? load(from) : load(from, wide);
      }
      exchange<1>(row);
      exchange<2>(row);
      exchange<4>(row);
      exchange<8>(row);
      for (std::int64_t i = 0; i < wide; ++i) {
        To* to = out + (column + i) * rows + first;
        if (tall == 16)
          store(to, row[i]);
        else
          store(to, row[i], tall);
      }
    }
  }
}

}  // namespace

namespace MILLRACE_ISA {

void transpose_f32(const float* in, std::int64_t rows, std::int64_t columns, float* out, std::int64_t begin, std::int64_t end) {
  transpose(in, rows, columns, out, begin, end);
}
void transpose_bf16(const BFloat16* in, std::int64_t rows, std::int64_t columns, BFloat16* out, std::int64_t begin, std::int64_t end) {
  transpose(in, rows, columns, out, begin, end);
}
void transpose_widen(const BFloat16* in, std::int64_t rows, std::int64_t columns, float* out, std::int64_t begin, std::int64_t end) {
  transpose(in, rows, columns, out, begin, end);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
