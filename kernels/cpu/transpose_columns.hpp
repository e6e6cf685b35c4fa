#pragma once

#include <cstddef>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/transpose_loops.hpp"

namespace millrace::kernels::cpu {

/// out[column · step + row] = in[row][column] for `rows` rows of `columns` columns, only for columns [begin, end): bf16 to bf16,
/// or either to f32. On the calling thread.
inline void transpose_columns(DType from, DType to, const std::byte* in, std::int64_t rows, std::int64_t columns, std::byte* out,
                              std::int64_t step, std::int64_t begin, std::int64_t end) {
  if (to == DType::bf16)
    pick_transpose_bf16()(reinterpret_cast<const BFloat16*>(in), rows, columns, reinterpret_cast<BFloat16*>(out), step, begin, end);
  else if (from == DType::bf16)
    pick_transpose_widen()(reinterpret_cast<const BFloat16*>(in), rows, columns, reinterpret_cast<float*>(out), step, begin, end);
  else
    pick_transpose_f32()(reinterpret_cast<const float*>(in), rows, columns, reinterpret_cast<float*>(out), step, begin, end);
}

}  // namespace millrace::kernels::cpu
