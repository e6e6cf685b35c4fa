#pragma once

#include <cstddef>

#include "kernels/base/dtype.hpp"
#include "kernels/matmul.hpp"

namespace millrace::kernels::cpu {

/// kernels/matmul.hpp through oneDNN, or through our own loops (MatmulPart::by_panels, by_tiles). The team splits the rows of c (its
/// columns if there are few rows); each thread runs a primitive of its own on one OpenMP thread. Each thread caches primitives and their
/// memory by shape, so a shape seen before does not allocate anything large. Operands are checked by the caller; throws Error(internal)
/// when the scratch is too small.
void matmul(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c, MatmulOptions options, Scratch scratch,
            const Tensor* addend = nullptr);

[[nodiscard]] std::size_t matmul_scratch_bytes(const Shape& a, const Shape& b, DType operands, DType result, MatmulOptions options,
                                               int threads);

/// What multiplies operands of this dtype on this processor: "oneDNN in fp32", "tile registers (AMX)", …
[[nodiscard]] const char* matmul_path(DType operands);

}  // namespace millrace::kernels::cpu
