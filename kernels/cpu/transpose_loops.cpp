#include "kernels/cpu/transpose_loops.hpp"

#include "kernels/cpu/simd/transpose_16x16.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Loads widen and stores round, so the bits are moved as they are.
MILLRACE_INLINE void whole_block(const BFloat16* in, std::int64_t columns, BFloat16* out, std::int64_t step) {
  f32x16 row[16];
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < 16; ++i) row[i] = load(in + i * columns);
  transpose_16x16(row);
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < 16; ++i) store(out + i * step, row[i]);
}

MILLRACE_INLINE void edge_block(const BFloat16* in, std::int64_t columns, BFloat16* out, std::int64_t step, std::int64_t tall,
                                std::int64_t wide) {
  for (std::int64_t i = 0; i < tall; ++i)
    for (std::int64_t j = 0; j < wide; ++j) out[j * step + i] = in[i * columns + j];
}

}  // namespace

namespace MILLRACE_ISA {

/// Blocks of 16 x 16 in registers, processed in strips of 64 columns, so that whole cache lines are read and written, four
/// neighbours of a row at a time.
void transpose_bf16(const BFloat16* in, std::int64_t rows, std::int64_t columns, BFloat16* out, std::int64_t step, std::int64_t begin,
                    std::int64_t end) {
  constexpr std::int64_t strip = 64;
  for (std::int64_t left = begin; left < end; left += strip) {
    const std::int64_t right = left + strip < end ? left + strip : end;
    for (std::int64_t first = 0; first < rows; first += 16) {
      const std::int64_t tall = rows - first < 16 ? rows - first : 16;
      for (std::int64_t column = left; column < right; column += 16) {
        const std::int64_t wide = right - column < 16 ? right - column : 16;
        const BFloat16* const from = in + first * columns + column;
        BFloat16* const to = out + column * step + first;
        if (tall == 16 && wide == 16)
          whole_block(from, columns, to, step);
        else
          edge_block(from, columns, to, step, tall, wide);
      }
    }
  }
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
