#pragma once

#include <span>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// sum[0] = Σ x² of an f32 tensor, f64 [1]: chunks of 4096 elements, each summed in a fixed lane order, chunks added in order.
/// Independent of the thread count. Not finite if any entry is not. On a GPU parts of a fixed size are summed and then added in
/// order.
void square_sum(const ExecutionContext& context, const Tensor& x, const Tensor& sum);

/// sums[i] = Σ tensors[i]², f64 [as many], with the same bits as one call per tensor. On a GPU a few launches handle all of them.
void square_sums(const ExecutionContext& context, std::span<const Tensor> tensors, const Tensor& sums);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(square_sums)> square_sums("square_sums");
}  // namespace table

}  // namespace millrace::kernels
