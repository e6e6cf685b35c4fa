#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/embedding.hpp for rows of `width` elements.
namespace millrace::kernels::cpu {

/// Converts one row to the other dtype.
MILLRACE_CPU_KERNEL(widen_row, void(const BFloat16* x, float* y, std::int64_t width));
MILLRACE_CPU_KERNEL(narrow_row, void(const float* x, BFloat16* y, std::int64_t width));

/// gradient[tokens[t]] += dy[t] for columns [begin, end), tokens in order.
MILLRACE_CPU_KERNEL(embedding_gradient_f32, void(const std::int32_t* tokens, std::int64_t count, const float* dy, float* gradient,
                                                 std::int64_t width, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(embedding_gradient_bf16, void(const std::int32_t* tokens, std::int64_t count, const BFloat16* dy, float* gradient,
                                                  std::int64_t width, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
