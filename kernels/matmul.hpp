#pragma once

#include <cstddef>

#include "kernels/base/stream.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// c[M, N] = op(a) · op(b), or c += …; op transposes where asked: a is [M, K] or [K, M], b is [K, N] or [N, K].
struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  // c must then be f32
  bool packed_b = false;    // b has its shape, and its data lies as pack() of kernels/packing.hpp wrote op(b)
  bool addend = false;      // c = op(a) · op(b) + addend, rounded once; not with `accumulate`
  bool bias = false;        // the same where the addend is f32 [N], added to every row; where products_add_bias says so
};

/// True where a product adds a bias on its way out, for nothing (an epilogue of cuBLASLt). Elsewhere bias_forward adds it.
[[nodiscard]] constexpr bool products_add_bias(Device device) noexcept { return device.kind == DeviceKind::cuda; }

/// a and b have one dtype, f32 or bf16; c is f32 or that dtype. Products are summed in fp32. The bits depend on shapes, dtypes and the
/// stream's thread count alone. `scratch` holds at least matmul_scratch_bytes. M of zero does nothing. `addend` is of c's type, and not c;
/// a bias is f32. Where the library has no algorithm that adds a bias, it is added to the rounded product.
void matmul(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& c, MatmulOptions options, Scratch scratch,
            const Tensor* addend = nullptr);

/// Scratch for the largest call with these shapes (capacities) on `threads` threads.
[[nodiscard]] std::size_t matmul_scratch_bytes(const Shape& a, const Shape& b, DType operands, DType result, MatmulOptions options,
                                               const Processor& processor);

}  // namespace millrace::kernels
