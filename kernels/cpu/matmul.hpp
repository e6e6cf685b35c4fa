#pragma once

#include <cstddef>

#include "kernels/base/dtype.hpp"
#include "kernels/matmul.hpp"

namespace millrace::kernels::cpu {

/// kernels/matmul.hpp by the loops of kernels/cpu/gemm/. The team splits the rows of c, or its columns if there are few rows. Operands are
/// checked by the caller; throws Error(internal) when the scratch is too small.
void matmul(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c, MatmulOptions options, Scratch scratch,
            const Tensor* addend = nullptr);

[[nodiscard]] std::size_t matmul_scratch_bytes(const Shape& a, const Shape& b, DType operands, DType result, MatmulOptions options,
                                               int threads);

/// What multiplies operands of this dtype on this processor: "our own loops in fp32", "dot products (AVX-512)", …
[[nodiscard]] const char* matmul_path(DType operands);

}  // namespace millrace::kernels::cpu
