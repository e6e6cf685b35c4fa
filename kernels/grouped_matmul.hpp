#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// The products of experts: each group of rows is multiplied by a matrix of its own.
struct GroupedMatmulOptions {
  bool transpose_b = false;  // each b[e] is [N, K], not [K, N]
  bool packed_b = false;     // each b[e] has the layout of kernels/packing.hpp, one after the other
  bool bias = false;         // an f32 [E, N]: row e is added to the results of group e before they are rounded

  static constexpr auto members() {
    return std::tuple(member("transpose_b", &GroupedMatmulOptions::transpose_b), member("packed_b", &GroupedMatmulOptions::packed_b),
                      member("bias", &GroupedMatmulOptions::bias));
  }
};

/// c[r] = a[r] · op(b[e]) for the rows r of group e: offsets[e] ≤ r < offsets[e + 1], offsets i32 [E + 1] from 0 to at most R, increasing.
/// Rows that come from several sources, arranged by source and then by expert, have offsets i32 [S·E + 1] of S·E groups: the groups s·E + e
/// of every source s are multiplied by b[e].
/// a [R, K] and b [E, K, N] or [E, N, K] of one dtype, f32 or bf16; c [R, N] of that dtype or f32; summed in fp32. **A row of c depends on
/// its row of a, on b[e], the dtypes and the instruction set alone**: not on how many rows its group has, on its place in it, or on the
/// thread count. Rows of a behind the last group reach no result, and those of c are not written. `bias` as options.bias says. E, K and
/// N are at least 1. Throws Error(internal) if an operand does not fit, and if the offsets are not as above; a GPU reports wrong
/// offsets when its work is done, and computes with the nearest possible ones.
void grouped_matmul(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c,
                    const GroupedMatmulOptions& options, Scratch scratch, const Tensor* bias = nullptr);
/// Scratch of the call with these shapes.
[[nodiscard]] std::size_t grouped_matmul_scratch_bytes(const Shape& a, const Shape& b, DType operands, DType result,
                                                       const GroupedMatmulOptions& options, const Processor& processor);

/// c[e] += a_eᵀ · b_e, summed over the rows of group e: a [R, M] and b [R, N] of one dtype, f32 or bf16; c f32 [E, M, N]. Offsets of S
/// sources as above: their groups are added one after the other, so that c[e] has the bits of S calls, one for each source. A group is
/// added from its first row on, in order, in fp32: on a CPU in runs of 128 rows, or in steps of 32 if it multiplies in bf16; on
/// a GPU row after row, or sixteen at a time on tensor cores, and then to c[e]. So c[e] depends on the group's rows, its previous value,
/// the dtypes and the instruction set alone. A group without rows leaves c[e] as it is. Errors as above.
void grouped_weight_gradient(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c,
                             Scratch scratch);
[[nodiscard]] std::size_t grouped_weight_gradient_scratch_bytes(const Shape& a, const Shape& b, DType operands, const Processor& processor);

/// c[e] f32 [E, N] += the sum of the rows of group e, in order: the gradient of a bias. a [R, N], f32 or bf16. Sources and errors as above.
void grouped_bias_gradient(const ExecutionContext& context, const Tensor& a, const Tensor& offsets, const Tensor& c);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(grouped_matmul)> grouped_matmul("grouped_matmul");
inline constinit Kernel<decltype(grouped_matmul_scratch_bytes)> grouped_matmul_scratch_bytes("grouped_matmul_scratch_bytes");
inline constinit Kernel<decltype(grouped_weight_gradient)> grouped_weight_gradient("grouped_weight_gradient");
inline constinit Kernel<decltype(grouped_weight_gradient_scratch_bytes)> grouped_weight_gradient_scratch_bytes(
    "grouped_weight_gradient_scratch_bytes");
inline constinit Kernel<decltype(grouped_bias_gradient)> grouped_bias_gradient("grouped_bias_gradient");
}  // namespace table

}  // namespace millrace::kernels
