#include "kernels/cpu/pack_loops.hpp"

#include "kernels/cpu/simd/pair_lines.hpp"
#include "kernels/cpu/simd/transpose_16x16.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kColumns = 64;

/// Packs contiguous lines, by vectors.
template <class From>
MILLRACE_INLINE void pack_lines(const From* in, const PackBlock& block, float* out) {
  for (std::int64_t row = 0; row < block.rows; ++row)
    for (std::int64_t column = 0; column < kColumns; column += 16) {
      const From* from = in + row * block.row_step + column;
      const std::int64_t left = block.columns - column;
      stream_line(out + row * kColumns + column, left >= 16 ? load(from) : left > 0 ? load(from, left) : f32x16{});
    }
}

/// Packs contiguous columns, as in a transposed matrix: squares of 16 x 16 in registers, one line of `out` per four vectors.
template <class From>
MILLRACE_INLINE void pack_columns(const From* in, const PackBlock& block, float* out) {
  const std::int64_t whole = block.rows / 16 * 16;
  for (std::int64_t row = 0; row < whole; row += 16)
    for (std::int64_t column = 0; column < kColumns; column += 16) {
      f32x16 square[16];
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < 16; ++i) {
        const bool there = column + i < block.columns;
        square[i] = there ? load(in + (column + i) * block.column_step + row) : f32x16{};
      }
      transpose_16x16(square);
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < 16; ++i) stream_line(out + (row + i) * kColumns + column, square[i]);
    }
  for (std::int64_t row = whole; row < block.rows; ++row)
    for (std::int64_t column = 0; column < kColumns; ++column)
      out[row * kColumns + column] = column < block.columns ? to_float(in[column * block.column_step + row]) : 0.0F;
}

template <class From>
MILLRACE_INLINE void pack(const From* in, const PackBlock& block, float* out) {
  if (block.column_step == 1)
    pack_lines(in, block, out);
  else
    pack_columns(in, block, out);
  for (std::int64_t i = block.rows * kColumns; i < block.padded * kColumns; ++i) out[i] = 0.0F;
  settle_streams();
}

}  // namespace

namespace MILLRACE_ISA {

void pack_f32(const float* in, const PackBlock& block, float* out) { pack(in, block, out); }
void pack_widen(const BFloat16* in, const PackBlock& block, float* out) { pack(in, block, out); }

void pack_pairs(const BFloat16* in, const PackBlock& block, BFloat16* out) {
  if (block.column_step == 1) return pair_block(in, block.row_step, block.rows, block.columns, block.padded, out);
  for (std::int64_t row = 0; row < block.padded; row += 2)
    for (std::int64_t column = 0; column < kColumns; ++column)
      for (std::int64_t half = 0; half < 2; ++half) {
        const bool there = column < block.columns && row + half < block.rows;
        out[row * kColumns + 2 * column + half] = there ? in[(row + half) * block.row_step + column * block.column_step] : BFloat16{};
      }
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
