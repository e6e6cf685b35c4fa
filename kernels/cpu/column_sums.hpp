#pragma once

#include <cstdint>

#include "kernels/cpu/simd/lanes.hpp"

/// Sums over rows for columns [begin, end), which the weight gradients of norms and biases need. Only for sources of
/// millrace_cpu_kernel().
namespace millrace::kernels::cpu {

/// sums[c] += Σ over rows of term(row, c, …). Rows are summed in blocks of 64, and each block is added to `sums` in order, so the
/// order of a sum depends only on the rows. `term(row, column, left)` returns sixteen columns, of which `left` count; the rest
/// are ignored.
template <class Term>
MILLRACE_INLINE void add_column_sums(std::int64_t rows, std::int64_t begin, std::int64_t end, float* sums, Term term) {
  constexpr std::int64_t block_rows = 64;
  constexpr std::int64_t block_columns = 256;  // 1 KiB of sums, which fits into the L1 cache
  for (std::int64_t row = 0; row < rows; row += block_rows) {
    const std::int64_t last = row + block_rows < rows ? row + block_rows : rows;
    for (std::int64_t column = begin; column < end; column += block_columns) {
      const std::int64_t columns = end - column < block_columns ? end - column : block_columns;
      f32x16 sum[block_columns / 16] = {};
      for (std::int64_t t = row; t < last; ++t)
        for (std::int64_t d = 0; d < columns; d += 16) sum[d / 16] += term(t, column + d, columns - d);
      for (std::int64_t d = 0; d < columns; d += 16) {
        float* to = sums + column + d;
        store_lanes(to, load_lanes(to, columns - d) + sum[d / 16], columns - d);
      }
    }
  }
}

}  // namespace millrace::kernels::cpu
