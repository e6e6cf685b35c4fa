#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// y[t] = softmax(x[t]) of each row: x [T, N], f32 or bf16, → y of the same type. Computed in fp32 and rounded once; the sum of a row in an
/// order that depends on N alone.
void softmax(const ExecutionContext& context, const Tensor& x, const Tensor& y);

/// dx[t] = y[t] ⊙ (dy[t] − ⟨dy[t], y[t]⟩), from the results y of the call above; dtype and sums as above. dy, y and dx [T, N] of one dtype.
void softmax_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& y, const Tensor& dx);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(softmax)> softmax("softmax");
inline constinit Kernel<decltype(softmax_input_gradient)> softmax_input_gradient("softmax_input_gradient");
}  // namespace table

}  // namespace millrace::kernels
