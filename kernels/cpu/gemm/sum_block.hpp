#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector.hpp"

/// Only for sources of millrace_tile_kernel().
namespace millrace::kernels::cpu {
namespace {

/// A block of 32 x 32 sums in fp32: to = from + a · b. The operands are bf16, in steps of 32 numbers of the depth: a as two tiles of 16
/// rows of 32 numbers, b as two tiles of 16 pairs of rows, 16 columns of each, interleaved. Distances are numbers, or floats for the sums.
struct SumBlock {
  const float* from;       // what the sums begin with; zero if null
  std::int64_t from_step;  // from one row to the next
  float* to;
  std::int64_t to_step;
  const BFloat16* a;     // the upper 16 rows
  std::int64_t a_lower;  // from there to the lower ones
  std::int64_t a_step;   // and to the next step
  const BFloat16* b;     // the left 16 columns
  std::int64_t b_right;  // from there to the right ones
  std::int64_t b_pair;   // to the next pair of rows
  std::int64_t b_step;   // to the next step
  std::int64_t depth;    // what follows in its last step is zero in both operands
  std::int64_t rows;     // that are needed; the sums of others may be left out

  [[nodiscard]] std::int64_t steps() const { return (depth + 31) / 32; }
};

/// Steps of a block or rows of it, [begin, end).
struct Part {
  std::int64_t begin, end;
};

}  // namespace
}  // namespace millrace::kernels::cpu
