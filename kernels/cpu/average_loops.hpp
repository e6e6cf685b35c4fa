#pragma once

#include <cstdint>

#include "kernels/cpu/simd/isa.hpp"

namespace millrace::kernels::cpu {

MILLRACE_CPU_KERNEL(move_average_range, void(float share, const float* x, float* average, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(exchange_range, void(float* a, float* b, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
