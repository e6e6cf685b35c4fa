#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

/// Two forms of how rows are divided into G groups that are neighbours: the number of rows of each group, and where each begins.
namespace millrace::kernels {

/// counts[g] = offsets[g + 1] − offsets[g]: offsets i32 [G + 1], increasing → counts i32 with G elements, in any shape. With a multiple of
/// G elements they are repeated as often.
void group_counts(const ExecutionContext& context, const Tensor& offsets, const Tensor& counts);

/// offsets[g] = Σ of the counts before g: counts i32 with G elements, in any shape, 0 or more each → offsets i32 [G + 1]. Throws
/// Error(internal) for a negative count and for 2^31 rows or more, if the host can read the counts.
void group_offsets(const ExecutionContext& context, const Tensor& counts, const Tensor& offsets);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(group_counts)> group_counts("group_counts");
inline constinit Kernel<decltype(group_offsets)> group_offsets("group_offsets");
}  // namespace table

}  // namespace millrace::kernels
