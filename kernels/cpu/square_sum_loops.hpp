#pragma once

#include <cstdint>

#include "kernels/cpu/simd/isa.hpp"

namespace millrace::kernels::cpu {

/// Σ x² in double: sixteen lanes, which are added as a tree.
MILLRACE_CPU_KERNEL(square_sum_chunk, double(const float* x, std::int64_t count));

}  // namespace millrace::kernels::cpu
