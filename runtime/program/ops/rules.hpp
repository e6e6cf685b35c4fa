#pragma once

#include <span>
#include <string_view>

#include "kernels/base/check.hpp"
#include "runtime/program/exchange.hpp"
#include "runtime/program/gradient_builder.hpp"
#include "runtime/program/operation.hpp"

/// Helpers shared by the rules of the operations.
namespace millrace::runtime {

/// y = x, y = 0, a + b, accumulator += x: what the transforms insert themselves.
[[nodiscard]] const OperationRule& copy_rule();
[[nodiscard]] const OperationRule& zeros_rule();
[[nodiscard]] const OperationRule& add_rule();
[[nodiscard]] const OperationRule& accumulate_rule();
/// y = x + b, and db += Σ dy.
[[nodiscard]] const OperationRule& bias_rule();
[[nodiscard]] const OperationRule& bias_weight_gradient_rule();
/// Copies to and from host memory that run concurrently with computation (runtime/passes/offload.hpp).
[[nodiscard]] const OperationRule& offload_begin_rule();
[[nodiscard]] const OperationRule& offload_end_rule();
[[nodiscard]] const OperationRule& fetch_begin_rule();
[[nodiscard]] const OperationRule& fetch_end_rule();
/// The two operations of an exchange (runtime/program/exchange.hpp). `rows` are those that are received.
[[nodiscard]] const OperationRule& post_rule();
[[nodiscard]] const OperationRule& await_rule();
[[nodiscard]] Attributes exchange_attributes(ExchangeId exchange, const kernels::Dimension& rows, bool part = false);
/// Whether the operation awaits a part of a value that a later await yields.
[[nodiscard]] bool awaits_part(const Operation& operation);
[[nodiscard]] std::vector<ValueId> exchange_operands(const ExchangeSpec& exchange);

namespace rules {

/// Throws Error(internal) with the operation, its operands' types and what was expected, unless `fits`.
void require(bool fits, std::string_view operation, std::span<const ValueType> inputs, std::string_view expected);

/// True for [rows, columns] of f32 or bf16.
[[nodiscard]] bool is_matrix(const ValueType& type);

/// True for f32 [dimension].
[[nodiscard]] bool is_vector(const ValueType& type, const kernels::Dimension& dimension);
/// True for i32 [dimension], such as positions and segments of T tokens.
[[nodiscard]] bool is_indices(const ValueType& type, const kernels::Dimension& dimension);

/// The total bytes of the values, each counted once.
[[nodiscard]] double bytes(std::span<const ValueType> types);
/// The bytes moved by reading `inputs` and writing `outputs`; accumulators are read and written.
[[nodiscard]] double traffic(std::span<const ValueType> inputs, std::span<const ValueType> outputs, bool accumulates = false);

[[nodiscard]] inline double elements(const ValueType& type) { return static_cast<double>(type.shape.elements()); }

/// A view of [T, heads·head_dim] as [T, heads, head_dim].
[[nodiscard]] kernels::Shape heads(const kernels::Shape& shape, std::int64_t head_dim);
[[nodiscard]] kernels::Tensor heads(kernels::Tensor tensor, std::int64_t head_dim);
/// The type of a norm's statistics: f32 [T, n], one number for each of a token's vectors, of x [T, n·width].
[[nodiscard]] ValueType scales_of(const ValueType& x, std::int64_t width);
/// A view of [T, n·width] as [T·n, width], and of [T, n] as [T·n]: one vector or number per row, for norms of a token's vectors.
[[nodiscard]] kernels::Tensor vectors(kernels::Tensor tensor, std::int64_t width);
[[nodiscard]] kernels::Tensor numbers(kernels::Tensor tensor);

/// True if a gradient of one of the first `count` operands is needed.
[[nodiscard]] bool wants_any(const GradientBuilder& builder, std::size_t count);
/// Declares gradients[i] to be that of operand i, for those that are needed.
void add_gradients(GradientBuilder& builder, std::span<const ValueId> gradients);
/// The gradient of an operation that is linear in its first operand and its own transpose: the operation itself, on dy in place of x.
void add_own_gradient(GradientBuilder& builder, const OperationRule& rule);

}  // namespace rules
}  // namespace millrace::runtime
