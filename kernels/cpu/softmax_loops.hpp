#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/softmax.hpp over rows [begin, end) of width N.
namespace millrace::kernels::cpu {

MILLRACE_CPU_KERNEL(softmax_rows_f32, void(const float* x, std::int64_t width, std::int64_t begin, std::int64_t end, float* y));
MILLRACE_CPU_KERNEL(softmax_rows_bf16, void(const BFloat16* x, std::int64_t width, std::int64_t begin, std::int64_t end, BFloat16* y));

MILLRACE_CPU_KERNEL(softmax_gradient_rows_f32,
                    void(const float* dy, const float* y, std::int64_t width, std::int64_t begin, std::int64_t end, float* dx));
MILLRACE_CPU_KERNEL(softmax_gradient_rows_bf16,
                    void(const BFloat16* dy, const BFloat16* y, std::int64_t width, std::int64_t begin, std::int64_t end, BFloat16* dx));

}  // namespace millrace::kernels::cpu
