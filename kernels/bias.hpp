#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// y = x + b for every row, in fp32, rounded to x's dtype. x, y [T, N] of one dtype (may be the same memory); b f32 [N].
void bias_forward(const ExecutionContext& context, const Tensor& x, const Tensor& b, const Tensor& y);

/// db[n] += sum over t of dy[t,n]; rows in blocks of fixed size, blocks in order. db f32 [N].
void bias_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& db);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(bias_forward)> bias_forward("bias_forward");
inline constinit Kernel<decltype(bias_weight_gradient)> bias_weight_gradient("bias_weight_gradient");
}  // namespace table

}  // namespace millrace::kernels
