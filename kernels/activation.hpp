#pragma once

#include "kernels/base/activation.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// y = activation(x), elementwise, in fp32, stored in x's dtype. Does not depend on the thread count.
void activation_forward(const ExecutionContext& context, Activation activation, const Tensor& x, const Tensor& y);

/// dx = dy · activation'(x).
void activation_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x, const Tensor& dx);

/// y = activation(gate) · up, elementwise, in fp32, stored in the operands' dtype: with silu this is SwiGLU, with gelu GEGLU
/// (Shazeer, arXiv 2002.05202).
void glu_forward(const ExecutionContext& context, Activation activation, const Tensor& gate, const Tensor& up, const Tensor& y);

/// d_gate = dy·up·activation'(gate),  d_up = dy·activation(gate).
void glu_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& gate, const Tensor& up,
                        const Tensor& d_gate, const Tensor& d_up);

/// What the backends implement of the above (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(activation_forward)> activation_forward("activation_forward");
inline constinit Kernel<decltype(activation_input_gradient)> activation_input_gradient("activation_input_gradient");
inline constinit Kernel<decltype(glu_forward)> glu_forward("glu_forward");
inline constinit Kernel<decltype(glu_input_gradient)> glu_input_gradient("glu_input_gradient");
}  // namespace table

}  // namespace millrace::kernels
