#pragma once

#include <cstddef>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// c[M, N] = op(a) · op(b), or c += …; op transposes if asked: a is [M, K] or [K, M], b is [K, N] or [N, K].
struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  // c must then be f32
  bool packed_b = false;    // b has its shape, and its data has the layout in which pack() of kernels/packing.hpp writes op(b)
  bool addend = false;      // c = op(a) · op(b) + addend, rounded once; not with `accumulate`
  bool bias = false;        // like `addend`, with an f32 [N] that is added to every row
};

/// True if a product that writes `result` should add its bias itself: on a device where that costs nothing (DeviceFacts::adds_bias), and
/// for bf16, where adding it by bias_forward would round the result a second time.
[[nodiscard]] bool products_add_bias(Device device, DType result) noexcept;

/// a and b have one dtype, f32 or bf16; c is f32 or that dtype. Products are summed in fp32. The bits depend only on shapes,
/// dtypes and the context's thread count. `scratch` has at least matmul_scratch_bytes. M of zero does nothing. `addend` has c's
/// type and is not c itself; a bias is f32. If cuBLASLt has no algorithm that adds a bias, it is added to the rounded product.
void matmul(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c, MatmulOptions options, Scratch scratch,
            const Tensor* addend = nullptr);

/// Scratch for the largest call with these shapes (capacities) on `threads` threads.
[[nodiscard]] std::size_t matmul_scratch_bytes(const Shape& a, const Shape& b, DType operands, DType result, MatmulOptions options,
                                               const Processor& processor);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(matmul)> matmul("matmul");
inline constinit Kernel<decltype(matmul_scratch_bytes)> matmul_scratch_bytes("matmul_scratch_bytes");
}  // namespace table

}  // namespace millrace::kernels
