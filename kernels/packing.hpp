#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// The layout in which products read their right operand fastest: op(b) [K, N] in blocks of 64 columns, one after the other;
/// within a block, row after row of 64 (bf16: two rows interleaved). Rows are padded with zeros to a multiple of 16 (bf16: 32),
/// columns to a multiple of 64. A matrix that is multiplied more than once between
/// two changes, such as a weight, is packed once. A stack of matrices [E, K, N], the weights of experts, is packed as its matrices one
/// after another, packed_bytes(k, n, dtype) from each to the next.
inline constexpr std::int64_t kPackedColumns = 64;

/// True if this device's products read packed operands. On other devices nothing may be packed.
[[nodiscard]] bool packs_operands(Device device = {});

/// Element type of a packed operand of `dtype`: f32, or bf16 if the processor multiplies bf16.
[[nodiscard]] DType packed_dtype(DType dtype);
/// Number of rows of a packed operand of this dtype, including padding.
[[nodiscard]] std::int64_t packed_rows(std::int64_t k, DType packed);
/// Bytes of op(b) [k, n], packed.
[[nodiscard]] std::size_t packed_bytes(std::int64_t k, std::int64_t n, DType dtype);
/// Bytes of b packed: a matrix or a stack of matrices, each transposed if asked.
[[nodiscard]] std::size_t packed_bytes(const Shape& b, bool transpose, DType dtype);
/// Index of element (row, column) of op(b) with `k` rows in the packed operand.
[[nodiscard]] std::int64_t packed_place(std::int64_t k, std::int64_t row, std::int64_t column, DType packed);

/// Writes op(b) packed: b is f32 or bf16, [K, N], or [N, K] with `transpose`, or a stack of such matrices. `packed` has packed_bytes,
/// aligned to kAlignment. The stores bypass the caches. Throws Error(internal) for another shape or alignment.
void pack(const ExecutionContext& context, const Tensor& b, bool transpose, std::byte* packed);
/// The inverse, element by element, for inspection.
void unpack(const std::byte* packed, bool transpose, const Tensor& b);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(pack)> pack("pack");
}  // namespace table

}  // namespace millrace::kernels
