#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

namespace millrace::kernels::cpu {

/// out[column · step + row] = in[row][column] for `rows` rows and columns [begin, end) of a matrix of `columns` columns; step >= rows.
MILLRACE_CPU_KERNEL(transpose_bf16, void(const BFloat16* in, std::int64_t rows, std::int64_t columns, BFloat16* out, std::int64_t step,
                                         std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
