#pragma once

#include <cstdint>

#include "kernels/cpu/simd/wide.hpp"

/// Products of small fp32 tiles that fit into the L1 and L2 caches. Each element of a result is one chain of multiply-adds in the
/// order of the depth, so its bits depend neither on the tile's size nor on the registers' width; instruction sets differ only in
/// whether the multiply-add is fused. Only for sources of millrace_cpu_kernel().
namespace millrace::kernels::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kBlockVectors = 4;  // 6 x 4 sums, 4 of b, 1 of a: 29 of 32 registers
#else
constexpr int kBlockVectors = 2;  // 6 x 2 sums, 2 of b, 1 of a: 15 of 16 registers
#endif

constexpr int kBlockRows = 6;
constexpr std::int64_t kBlockColumns = kBlockVectors * kWide;

/// The part of a tile on the diagonal that is worth computing: queries are the rows and keys the columns of the scores, and a
/// query sees no later key.
enum class Part : std::uint8_t {
  whole,
  columns_to_diagonal,  // scores: columns up to the block's last row
  depth_to_diagonal,    // rows are queries, summed over keys: up to the block's last row
  depth_from_diagonal,  // rows are keys, summed over queries: from the block's first row
};

/// c [rows, columns] (+)= a · b over depth: a [rows, depth], or [depth, rows] where transposed; b [depth, columns].
struct Product {
  const float* a;
  std::int64_t a_step;  // floats from one line to the next
  const float* b;
  std::int64_t b_step;
  float* c;
  std::int64_t c_step;
  bool accumulate;
};

template <bool transpose_a, int rows, int vectors>
void product_block(const Product& x, std::int64_t row, std::int64_t column, std::int64_t begin, std::int64_t end) {
  Wide sum[rows][vectors];
  float* c = x.c + row * x.c_step + column;
#pragma GCC unroll 8
  for (int m = 0; m < rows; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < vectors; ++n) {
      sum[m][n] = Wide{};
      if (x.accumulate) __builtin_memcpy(&sum[m][n], c + m * x.c_step + n * kWide, sizeof(Wide));
    }
  const float* a = transpose_a ? x.a + row : x.a + row * x.a_step;
  const float* b = x.b + column;
  const std::int64_t a_step = x.a_step;
  const std::int64_t b_step = x.b_step;
  for (std::int64_t k = begin; k < end; ++k) {
    Wide right[vectors];
#pragma GCC unroll 8
    for (int n = 0; n < vectors; ++n) __builtin_memcpy(&right[n], b + k * b_step + n * kWide, sizeof(Wide));
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) {
      const Wide left = broadcast(transpose_a ? a + k * a_step + m : a + m * a_step + k);
#pragma GCC unroll 8
      for (int n = 0; n < vectors; ++n) sum[m][n] = multiply_add(left, right[n], sum[m][n]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < rows; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < vectors; ++n) __builtin_memcpy(c + m * x.c_step + n * kWide, &sum[m][n], sizeof(Wide));
}

using ProductBlock = void (*)(const Product&, std::int64_t row, std::int64_t column, std::int64_t begin, std::int64_t end);

template <bool transpose_a, int rows>
MILLRACE_INLINE ProductBlock choose_block(std::int64_t vectors) {
  if constexpr (kBlockVectors > 2) {
    if (vectors == 4) return product_block<transpose_a, rows, 4>;
    if (vectors == 3) return product_block<transpose_a, rows, 3>;
  }
  return vectors == 2 ? product_block<transpose_a, rows, 2> : product_block<transpose_a, rows, 1>;
}

template <bool transpose_a>
MILLRACE_INLINE ProductBlock choose_block(std::int64_t rows, std::int64_t vectors) {
  switch (rows) {
    case 6:
      return choose_block<transpose_a, 6>(vectors);
    case 5:
      return choose_block<transpose_a, 5>(vectors);
    case 4:
      return choose_block<transpose_a, 4>(vectors);
    case 3:
      return choose_block<transpose_a, 3>(vectors);
    case 2:
      return choose_block<transpose_a, 2>(vectors);
    default:
      return choose_block<transpose_a, 1>(vectors);
  }
}

/// `columns` is a multiple of 16; columns beyond those that are needed must be readable and writable.
template <bool transpose_a>
MILLRACE_INLINE void product(Part part, std::int64_t rows, std::int64_t columns, std::int64_t depth, const Product& x) {
  for (std::int64_t column = 0; column < columns; column += kBlockColumns)
    for (std::int64_t row = 0; row < rows; row += kBlockRows) {
      const std::int64_t height = rows - row < kBlockRows ? rows - row : kBlockRows;
      const std::int64_t last = row + height;
      const std::int64_t needed = part == Part::columns_to_diagonal && last < columns ? last : columns;
      if (needed <= column) continue;
      const std::int64_t begin = part == Part::depth_from_diagonal ? row : 0;
      const std::int64_t end = part == Part::depth_to_diagonal && last < depth ? last : depth;
      const std::int64_t width = needed - column < kBlockColumns ? needed - column : kBlockColumns;
      choose_block<transpose_a>(height, (width + kWide - 1) / kWide)(x, row, column, begin, end);
    }
}

}  // namespace
}  // namespace millrace::kernels::cpu
