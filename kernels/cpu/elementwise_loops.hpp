#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops over [begin, end) of contiguous arrays.
namespace millrace::kernels::cpu {

MILLRACE_CPU_KERNEL(add_f32, void(const float* a, const float* b, float* y, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(add_bf16, void(const BFloat16* a, const BFloat16* b, BFloat16* y, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(scale_f32, void(const float* x, float factor, float* y, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(scale_bf16, void(const BFloat16* x, float factor, BFloat16* y, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(accumulate_f32, void(const float* x, float* accumulator, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(accumulate_bf16, void(const BFloat16* x, float* accumulator, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(widen, void(const BFloat16* x, float* y, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(narrow, void(const float* x, BFloat16* y, std::int64_t begin, std::int64_t end));
/// y = a + b, rounded once.
MILLRACE_CPU_KERNEL(narrow_sum, void(const float* a, const BFloat16* b, BFloat16* y, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(narrow_wide_sum, void(const float* a, const float* b, BFloat16* y, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
