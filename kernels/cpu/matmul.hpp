#pragma once

#include <cstddef>

#include "kernels/base/dtype.hpp"
#include "kernels/matmul.hpp"

namespace millrace::kernels::cpu {

/// kernels/matmul.hpp by our own loops (kernels/cpu/gemm/) or, in bf16 without AMX, by oneDNN. The team splits the rows of c (its columns
/// if there are few rows). For oneDNN each thread runs a primitive of its own on one OpenMP thread, and caches primitives and their memory
/// by shape, so a shape seen before does not allocate anything large. Operands are checked by the caller; throws Error(internal) when the
/// scratch is too small.
void matmul(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c, MatmulOptions options, Scratch scratch,
            const Tensor* addend = nullptr);

[[nodiscard]] std::size_t matmul_scratch_bytes(const Shape& a, const Shape& b, DType operands, DType result, MatmulOptions options,
                                               int threads);

/// What multiplies operands of this dtype on this processor: "our own loops in fp32", "tile registers (AMX)", …
[[nodiscard]] const char* matmul_path(DType operands);

}  // namespace millrace::kernels::cpu
