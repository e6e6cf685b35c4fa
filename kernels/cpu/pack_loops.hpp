#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

namespace millrace::kernels::cpu {

/// A block of at most 64 columns: its element (row, column) is at row · row_step + column · column_step of the matrix.
struct PackBlock {
  std::int64_t row_step, column_step;
  std::int64_t rows, padded, columns;  // rows from the matrix, rows with zeros, columns from the matrix
  bool soon;                           // it is read at once and should stay in the caches
};

/// out[row][column] for 64 columns, with zeros beyond the matrix.
MILLRACE_CPU_KERNEL(pack_f32, void(const float* in, const PackBlock& block, float* out));
MILLRACE_CPU_KERNEL(pack_widen, void(const BFloat16* in, const PackBlock& block, float* out));
/// out[row / 2][column][row % 2].
MILLRACE_CPU_KERNEL(pack_pairs, void(const BFloat16* in, const PackBlock& block, BFloat16* out));

}  // namespace millrace::kernels::cpu
