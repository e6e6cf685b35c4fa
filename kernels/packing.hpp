#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// A matrix as products read their right operand fastest: op(b) [K, N] in blocks of 64 columns, one after the other; in a block, row after
/// row of 64 (bf16: two rows interleaved). Rows are padded with zeros to a multiple of 16 (bf16: 32), columns to one of 64. oneDNN calls it
/// BA16a64b (bf16: BA16a64b2a). What is multiplied more than once between two changes, a weight, is packed once.
inline constexpr std::int64_t kPackedColumns = 64;

/// True where this device's products read packed operands. Elsewhere nothing may be packed.
[[nodiscard]] bool packs_operands(Device device = {});

/// What lies in a packed operand of `dtype`: f32, or bf16 where the processor multiplies bf16.
[[nodiscard]] DType packed_dtype(DType dtype);
/// Rows with padding, of a packed operand of this dtype.
[[nodiscard]] std::int64_t packed_rows(std::int64_t k, DType packed);
/// Bytes of op(b) [k, n].
[[nodiscard]] std::size_t packed_bytes(std::int64_t k, std::int64_t n, DType dtype);
/// Where element (row, column) of op(b) with `k` rows stands, in elements.
[[nodiscard]] std::int64_t packed_place(std::int64_t k, std::int64_t row, std::int64_t column, DType packed);

/// Writes op(b) packed: b f32 or bf16, [K, N], or [N, K] with `transpose`. `packed` has packed_bytes, at a multiple of kAlignment. What is
/// written goes past the caches.
void pack(const ExecutionContext& context, const Tensor& b, bool transpose, std::byte* packed);
/// The way back, element by element: for whoever wants to look at it.
void unpack(const std::byte* packed, bool transpose, const Tensor& b);

/// What the backends implement of the above (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(pack)> pack("pack");
}  // namespace table

}  // namespace millrace::kernels
