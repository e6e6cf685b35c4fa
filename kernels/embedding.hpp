#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// y[t] = table[tokens[t]]. tokens i32 [T], table f32 or bf16 [V, D], y [T, D] of either dtype. Throws Error(data), which names
/// position and value, for a token outside [0, V).
void embedding_forward(const ExecutionContext& context, const Tensor& tokens, const Tensor& table, const Tensor& y);

/// gradient[v] += sum of dy[t] over the positions t, in increasing order, where tokens[t] = v. gradient f32 [V, D], dy [T, D].
void embedding_weight_gradient(const ExecutionContext& context, const Tensor& tokens, const Tensor& dy, const Tensor& gradient);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(embedding_forward)> embedding_forward("embedding_forward");
inline constinit Kernel<decltype(embedding_weight_gradient)> embedding_weight_gradient("embedding_weight_gradient");
}  // namespace table

}  // namespace millrace::kernels
