#include "kernels/cpu/pack_loops.hpp"

#include "kernels/cpu/simd/lanes.hpp"
#include "kernels/cpu/simd/pair_lines.hpp"
#include "kernels/cpu/simd/transpose_16x16.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kColumns = 64;

/// Stores a whole line: past the caches, unless it is read soon.
MILLRACE_INLINE void put_line(const PackBlock& block, float* p, f32x16 v) {
  if (block.soon)
    store(p, v);
  else
    stream_line(p, v);
}

/// Packs contiguous lines, by vectors.
template <class From>
MILLRACE_INLINE void pack_lines(const From* in, const PackBlock& block, float* out) {
  for (std::int64_t row = 0; row < block.rows; ++row)
    for (std::int64_t column = 0; column < kColumns; column += 16) {
      const From* from = in + row * block.row_step + column;
      const std::int64_t left = block.columns - column;
      put_line(block, out + row * kColumns + column, left >= 16 ? load(from) : left > 0 ? load(from, left) : f32x16{});
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
      for (std::int64_t i = 0; i < 16; ++i) put_line(block, out + (row + i) * kColumns + column, square[i]);
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

/// Sixteen elements of two lines, interleaved.
MILLRACE_INLINE f32x16 interleave(f32x16 even, f32x16 odd) { return (f32x16)(((u32x16)even >> 16) | (u32x16)odd); }

/// Packs pairs of contiguous lines, by vectors. A line beyond the matrix is zero.
MILLRACE_INLINE void pack_line_pairs(const BFloat16* in, const PackBlock& block, BFloat16* out) {
  for (std::int64_t row = 0; row < block.padded; row += 2)
    for (std::int64_t column = 0; column < kColumns; column += 16) {
      const std::int64_t left = block.columns - column;
      const auto line = [&](std::int64_t of) __attribute__((always_inline)) {
        const bool there = of < block.rows && left > 0;
        return there ? load_lanes(in + of * block.row_step + column, left) : f32x16{};
      };
      put_line(block, reinterpret_cast<float*>(out + row * kColumns + 2 * column), interleave(line(row), line(row + 1)));
    }
  settle_streams();
}

/// Packs a transposed matrix with an odd number of rows; pairs of an even number are elements of pack_columns().
MILLRACE_INLINE void pack_pairs_singly(const BFloat16* in, const PackBlock& block, BFloat16* out) {
  for (std::int64_t row = 0; row < block.padded; row += 2)
    for (std::int64_t column = 0; column < kColumns; ++column)
      for (std::int64_t half = 0; half < 2; ++half) {
        const bool there = column < block.columns && row + half < block.rows;
        out[row * kColumns + 2 * column + half] = there ? in[(row + half) * block.row_step + column * block.column_step] : BFloat16{};
      }
}

}  // namespace

namespace MILLRACE_ISA {

void pack_f32(const float* in, const PackBlock& block, float* out) { pack(in, block, out); }
void pack_widen(const BFloat16* in, const PackBlock& block, float* out) { pack(in, block, out); }

void pack_pairs(const BFloat16* in, const PackBlock& block, BFloat16* out) {
  if (block.column_step == 1 && block.soon)
    pair_block(in, block.row_step, block.rows, block.columns, block.padded, out);
  else if (block.column_step == 1)
    pack_line_pairs(in, block, out);
  else
    pack_pairs_singly(in, block, out);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
