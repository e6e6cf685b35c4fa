#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/multiply_sums.hpp"
#include "kernels/cpu/simd/pair_lines.hpp"
#include "kernels/cpu/simd/transpose_16x16.hpp"

/// Small bf16 products whose operands are copied as tiles, one after another, each of 512 numbers:
///
///   left   [m, k]: [m/16][k/32] tiles of 16 rows of 32 numbers
///   right  [k, n]: [k/32][n/16] tiles of 16 pairs of rows, 16 numbers of each, interleaved
///
/// Only for sources of millrace_tile_kernel().
namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kTileNumbers = 512;

/// The first `count` of 32 numbers; the others are zero, as all are if count <= 0.
MILLRACE_INLINE u16x32 load_numbers(const BFloat16* p, std::int64_t count) {
  u16x32 v{};
  if (count >= 32) {
    __builtin_memcpy(&v, p, sizeof v);
  } else if (count > 0) {
    BFloat16 numbers[32] = {};
    __builtin_memcpy(numbers, p, static_cast<std::size_t>(count) * sizeof(BFloat16));
    __builtin_memcpy(&v, numbers, sizeof v);
  }
  return v;
}
MILLRACE_INLINE void store_numbers(BFloat16* p, u16x32 v) { __builtin_memcpy(p, &v, sizeof v); }

/// Lines of numbers in memory.
struct Lines {
  const BFloat16* from;
  std::int64_t step;   // numbers from one line to the next
  std::int64_t count;  // number of lines
  std::int64_t width;  // numbers in a line
};

MILLRACE_INLINE u16x32 line_of(const Lines& x, std::int64_t line, std::int64_t column) {
  return line < x.count ? load_numbers(x.from + line * x.step + column, x.width - column) : u16x32{};
}

/// Copies the lines as a left operand of `rows` rows, with zeros up to a multiple of 32 numbers and after the last line.
MILLRACE_INLINE void copy_left(const Lines& x, std::int64_t rows, BFloat16* to) {
  const std::int64_t steps = (x.width + 31) / 32;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t step = 0; step < steps; ++step)
      store_numbers(to + (row / 16 * steps + step) * kTileNumbers + row % 16 * 32, line_of(x, row, 32 * step));
}

/// Copies the transposed lines as a right operand of `columns` columns, and of the lines' width, up to a multiple of 32, as its depth.
MILLRACE_INLINE void copy_transposed_right(const Lines& x, std::int64_t columns, BFloat16* to) {
  for (std::int64_t depth = 0; depth < x.width; depth += 32)
    for (std::int64_t column = 0; column < columns; column += 16, to += kTileNumbers) {
      f32x16 square[16];
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < 16; ++i) square[i] = (f32x16)line_of(x, column + i, depth);
      transpose_16x16(square);
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < 16; ++i) store_numbers(to + 32 * i, (u16x32)square[i]);
    }
}

/// Copies the lines as a right operand of this depth, with zeros up to a multiple of 32 columns and after the last line.
MILLRACE_INLINE void copy_right(const Lines& x, std::int64_t depth, BFloat16* to) {
  const std::int64_t tiles = (x.width + 31) / 32 * 2;  // in a step
  for (std::int64_t line = 0; line < depth; line += 2)
    for (std::int64_t column = 0; column < x.width; column += 32) {
      const u16x32 even = line_of(x, line, column), odd = line_of(x, line + 1, column);
      BFloat16* const pair = to + (line / 32 * tiles + column / 16) * kTileNumbers + line % 32 * 16;
      store_numbers(pair, pair_low(even, odd));
      store_numbers(pair + kTileNumbers, pair_high(even, odd));
    }
}

/// Copies the transposed lines as a left operand, of the lines' width, up to a multiple of 32, as its rows, and of this depth.
MILLRACE_INLINE void copy_transposed_left(const Lines& x, std::int64_t depth, BFloat16* to) {
  const std::int64_t steps = depth / 32;
  for (std::int64_t row = 0; row < x.width; row += 32)
    for (std::int64_t step = 0; step < steps; ++step) {
      f32x16 low[16], high[16];
#pragma GCC unroll 16
      for (std::int64_t pair = 0; pair < 16; ++pair) {
        const u16x32 even = line_of(x, 32 * step + 2 * pair, row), odd = line_of(x, 32 * step + 2 * pair + 1, row);
        low[pair] = (f32x16)pair_low(even, odd);
        high[pair] = (f32x16)pair_high(even, odd);
      }
      BFloat16* const tile = to + (row / 16 * steps + step) * kTileNumbers;
      transpose_16x16(low);
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < 16; ++i) store_numbers(tile + 32 * i, (u16x32)low[i]);
      transpose_16x16(high);
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < 16; ++i) store_numbers(tile + steps * kTileNumbers + 32 * i, (u16x32)high[i]);
    }
}

/// A product of copied operands; the parts that are multiplied begin where the pointers are.
struct BlockProduct {
  const BFloat16* a;
  std::int64_t a_rows;  // tiles from one row of tiles to the next
  const BFloat16* b;
  std::int64_t b_step;  // tiles from one step to the next
  float* c;
  std::int64_t c_step;  // floats from one row to the next
};

/// A block of 32 x 32 sums: c (+)= a · b over `steps` steps of 32 numbers.
MILLRACE_INLINE void multiply_block(Tiles& tiles, const BlockProduct& x, std::int64_t steps, bool accumulate) {
  const SumBlock block{.from = accumulate ? x.c : nullptr,
                       .from_step = x.c_step,
                       .to = x.c,
                       .to_step = x.c_step,
                       .a = x.a,
                       .a_lower = x.a_rows * kTileNumbers,
                       .a_step = kTileNumbers,
                       .b = x.b,
                       .b_right = kTileNumbers,
                       .b_pair = 32,
                       .b_step = x.b_step * kTileNumbers,
                       .depth = 32 * steps,
                       .rows = 32};
  multiply_sums(tiles, block, [](Part, Part) {});
}

/// c [32, columns] (+)= a · b.
MILLRACE_INLINE void multiply_rows(Tiles& tiles, BlockProduct x, std::int64_t columns, std::int64_t steps, bool accumulate) {
  for (std::int64_t column = 0; column < columns; column += 32, x.b += 2 * kTileNumbers, x.c += 32)
    multiply_block(tiles, x, steps, accumulate);
}

}  // namespace
}  // namespace millrace::kernels::cpu
