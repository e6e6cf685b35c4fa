#include "kernels/cpu/transpose_loops.hpp"

#include <type_traits>

#include "kernels/cpu/simd/transpose_16x16.hpp"

namespace millrace::kernels::cpu {
namespace {

template <class To>
MILLRACE_INLINE To from_bits(To value) {
  return value;
}
template <class To>
requires(sizeof(To) == sizeof(float)) MILLRACE_INLINE To from_bits(BFloat16 value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}

template <class From, class To>
MILLRACE_INLINE void whole_block(const From* in, std::int64_t columns, To* out, std::int64_t step) {
  if constexpr (std::is_same_v<From, float>) {
    transpose_16x16(in, columns, out, step);
  } else {  // loads widen, stores round
    f32x16 row[16];
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < 16; ++i) row[i] = load(in + i * columns);
    transpose_16x16(row);
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < 16; ++i) store(out + i * step, row[i]);
  }
}

template <class From, class To>
MILLRACE_INLINE void edge_block(const From* in, std::int64_t columns, To* out, std::int64_t step, std::int64_t tall, std::int64_t wide) {
  for (std::int64_t i = 0; i < tall; ++i)
    for (std::int64_t j = 0; j < wide; ++j) out[j * step + i] = from_bits<To>(in[i * columns + j]);
}

/// Blocks of 16 x 16 in registers, processed in strips of 64 columns, so that whole cache lines are read and written, four
/// neighbours of a row at a time.
template <class From, class To>
MILLRACE_INLINE void transpose(const From* in, std::int64_t rows, std::int64_t columns, To* out, std::int64_t step, std::int64_t begin,
                               std::int64_t end) {
  constexpr std::int64_t strip = 64;
  for (std::int64_t left = begin; left < end; left += strip) {
    const std::int64_t right = left + strip < end ? left + strip : end;
    for (std::int64_t first = 0; first < rows; first += 16) {
      const std::int64_t tall = rows - first < 16 ? rows - first : 16;
      for (std::int64_t column = left; column < right; column += 16) {
        const std::int64_t wide = right - column < 16 ? right - column : 16;
        const From* from = in + first * columns + column;
        To* to = out + column * step + first;
        if (tall == 16 && wide == 16)
          whole_block(from, columns, to, step);
        else
          edge_block(from, columns, to, step, tall, wide);
      }
    }
  }
}

}  // namespace

namespace MILLRACE_ISA {

void transpose_f32(const float* in, std::int64_t rows, std::int64_t columns, float* out, std::int64_t step, std::int64_t begin,
                   std::int64_t end) {
  transpose(in, rows, columns, out, step, begin, end);
}
void transpose_bf16(const BFloat16* in, std::int64_t rows, std::int64_t columns, BFloat16* out, std::int64_t step, std::int64_t begin,
                    std::int64_t end) {
  transpose(in, rows, columns, out, step, begin, end);
}
void transpose_widen(const BFloat16* in, std::int64_t rows, std::int64_t columns, float* out, std::int64_t step, std::int64_t begin,
                     std::int64_t end) {
  transpose(in, rows, columns, out, step, begin, end);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
