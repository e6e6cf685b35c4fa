#pragma once

#include <span>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// Copies the columns of x [T, N] to parts [T, N₀], [T, N₁], … of its dtype, from the first column on; their widths add up to N.
void split_columns(const ExecutionContext& context, const Tensor& x, std::span<const Tensor> parts);

/// The inverse: y [T, N] is the concatenation of the parts along columns.
void join_columns(const ExecutionContext& context, std::span<const Tensor> parts, const Tensor& y);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(split_columns)> split_columns("split_columns");
inline constinit Kernel<decltype(join_columns)> join_columns("join_columns");
}  // namespace table

}  // namespace millrace::kernels
