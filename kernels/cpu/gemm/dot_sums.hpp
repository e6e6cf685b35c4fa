#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/store_rounded.hpp"
#include "kernels/cpu/gemm/sum_block.hpp"
#include "kernels/cpu/simd/wide.hpp"

/// Blocks of sums by AVX-512's dot products of pairs (Intel, Architecture Instruction Set Extensions, VDPBF16PS), some rows at a time. A
/// sum is one chain over the pairs of the depth, in order, each of which adds the product of its odd numbers and then that of its even
/// ones, rounded after each. Numbers and results below the smallest normal one count as zero. Only for
/// sources of millrace_tile_kernel().
namespace millrace::kernels::cpu {
namespace {

/// No registers have to be set up: they are those of all vectors.
class Tiles {};

constexpr bool kReadsAllRows = false, kFetchesAll = false, kFinishesAtOnce = true;
constexpr std::int64_t kTileDepth = 1024, kTileWidth = 384;
constexpr int kDotRows = 11;  // at most at a time: 11 x 2 sums, 2 of b, 1 of a

/// sum[j] += left[2j + 1] · right[2j + 1], then left[2j] · right[2j]. Written out, since the intrinsic needs an option of the compiler that
/// would let it use the instruction elsewhere, too.
MILLRACE_INLINE void add_dot_products(f32x16& sum, f32x16 left, f32x16 right) {
  asm("vdpbf16ps %1, %2, %0" : "+v"(sum) : "v"(left), "v"(right));
}

/// Rows [first, first + rows) of a block; write(row, left, right) gets the sums of each. Out of line: GCC keeps the sums in registers only
/// in a function of its own.
template <int rows, class Write>
[[gnu::noinline]] void multiply_rows_of_dots(const SumBlock& x, std::int64_t first, const Write& write) {
  f32x16 sum[rows][2];
#pragma GCC unroll 16
  for (int row = 0; row < rows; ++row)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half)
      sum[row][half] = x.from == nullptr ? f32x16{} : load(x.from + (first + row) * x.from_step + 16 * half);
  const BFloat16* a = x.a + first / 16 * x.a_lower + first % 16 * 32;
  const BFloat16* b = x.b;
  const auto add_pair = [&](const BFloat16* column, const BFloat16* line) __attribute__((always_inline)) {
    const f32x16 left = load(reinterpret_cast<const float*>(line)), right = load(reinterpret_cast<const float*>(line + x.b_right));
#pragma GCC unroll 16
    for (int row = 0; row < rows; ++row) {
      const f32x16 numbers = broadcast(reinterpret_cast<const float*>(column + row * 32));
      add_dot_products(sum[row][0], numbers, left);
      add_dot_products(sum[row][1], numbers, right);
    }
  };
  for (std::int64_t step = 0; step < x.depth / 32; ++step, a += x.a_step, b += x.b_step) {
    const BFloat16* line = b;
#pragma GCC unroll 16
    for (int pair = 0; pair < 16; ++pair, line += x.b_pair) add_pair(a + 2 * pair, line);
  }
  for (std::int64_t pair = 0; pair < (x.depth % 32 + 1) / 2; ++pair, a += 2, b += x.b_pair) add_pair(a, b);
#pragma GCC unroll 16
  for (int row = 0; row < rows; ++row) write(first + row, sum[row][0], sum[row][1]);
}

template <int rows = kDotRows, class Write>
MILLRACE_INLINE void multiply_dot_rows(const SumBlock& x, std::int64_t first, std::int64_t count, const Write& write) {
  if constexpr (rows > 1) {
    if (count < rows) return multiply_dot_rows<rows - 1>(x, first, count, write);
  }
  multiply_rows_of_dots<rows>(x, first, write);
}

/// As multiply_sums.hpp says, but write(row, left, right) gets the sums of each row instead of x.to. The same units do what the steps ask
/// for: before the rows, in equal shares. Where the lower 16 rows do not follow upon the upper ones, rows are taken by eight, so that none
/// of these parts has rows of both.
template <class Each, class Write>
MILLRACE_INLINE void multiply_sums(Tiles& /*tiles*/, const SumBlock& x, Each&& each, const Write& write) {
  const bool follow = x.a_lower == 16 * 32;
  const std::int64_t parts = follow ? (x.rows + kDotRows - 1) / kDotRows : (x.rows + 7) / 8;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t first = follow ? x.rows * part / parts : 8 * part;
    const std::int64_t end = follow ? x.rows * (part + 1) / parts : smaller(first + 8, x.rows);
    each(Part{x.steps() * part / parts, x.steps() * (part + 1) / parts}, Part{first, end});
    multiply_dot_rows(x, first, end - first, write);
  }
}

template <class Each>
MILLRACE_INLINE void multiply_sums(Tiles& tiles, const SumBlock& x, Each&& each) {
  multiply_sums(
      tiles, x, each, [ to = x.to, step = x.to_step ](std::int64_t row, f32x16 left, f32x16 right) __attribute__((always_inline)) {
        store(to + row * step, left);
        store(to + row * step + 16, right);
      });
}

}  // namespace
}  // namespace millrace::kernels::cpu
