#pragma once

#include "kernels/cpu/simd/vector.hpp"

/// Interleaves lines of bf16, as products of pairs read their right operand. Only for sources that are compiled for one instruction set.
namespace millrace::kernels::cpu {

using u16x32 = std::uint16_t __attribute__((vector_size(64)));

/// Numbers of a and of b in turn: those of the first 16 columns, and those of the last.
MILLRACE_INLINE_UNLESS_MODEL u16x32 pair_low(u16x32 a, u16x32 b) {
  return __builtin_shufflevector(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45,
                                 14, 46, 15, 47);
}
MILLRACE_INLINE_UNLESS_MODEL u16x32 pair_high(u16x32 a, u16x32 b) {
  return __builtin_shufflevector(a, b, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28,
                                 60, 29, 61, 30, 62, 31, 63);
}

/// Interleaves 64 numbers of two lines: out[2i] = even[i], out[2i + 1] = odd[i].
MILLRACE_INLINE void pair_lines(const BFloat16* even, const BFloat16* odd, BFloat16* out) {
#pragma GCC unroll 2
  for (std::int64_t i = 0; i < 64; i += 32) {
    u16x32 a, b;
    __builtin_memcpy(&a, even + i, sizeof a);
    __builtin_memcpy(&b, odd + i, sizeof b);
    const u16x32 low = pair_low(a, b), high = pair_high(a, b);
    __builtin_memcpy(out + 2 * i, &low, sizeof low);
    __builtin_memcpy(out + 2 * i + 32, &high, sizeof high);
  }
}

/// The lines [0, lines) of at most 64 numbers, `step` numbers from one to the next, as pairs of 64 numbers with zeros beyond `columns` and
/// in lines up to `padded`, which is even.
MILLRACE_INLINE void pair_block(const BFloat16* from, std::int64_t step, std::int64_t lines, std::int64_t columns, std::int64_t padded,
                                BFloat16* out) {
  alignas(64) BFloat16 short_lines[2][64] = {};
  for (std::int64_t line = 0; line < padded; line += 2, from += 2 * step, out += 128) {
    // Lines are often a page or more apart, where the processor does not fetch ahead by itself.
    for (std::int64_t i = 16; i < 18; ++i)
      for (std::int64_t half = 0; half < 64; half += 32) __builtin_prefetch(from + i * step + half, 0, 3);
    if (columns == 64 && line + 2 <= lines) {
      pair_lines(from, from + step, out);
      continue;
    }
    for (std::int64_t i = 0; i < 2; ++i) {
      const std::int64_t count = line + i < lines ? columns : 0;
      for (std::int64_t column = 0; column < 64; ++column) short_lines[i][column] = column < count ? from[i * step + column] : BFloat16{};
    }
    pair_lines(short_lines[0], short_lines[1], out);
  }
}

}  // namespace millrace::kernels::cpu
