#pragma once

#include <span>

#include "kernels/base/activation.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// The learned numbers of an activation, as many as activation_parameters() says, each f32 [1].
using ActivationParameters = std::span<const Tensor>;

/// y = activation(x), elementwise, in fp32, stored in x's dtype. Does not depend on the thread count.
void activation_forward(const ExecutionContext& context, Activation activation, const Tensor& x, const Tensor& y,
                        ActivationParameters parameters = {});

/// dx = dy · activation'(x).
void activation_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x, const Tensor& dx,
                               ActivationParameters parameters = {});

/// y = activation(gate) · up, elementwise, in fp32, stored in the operands' dtype: with silu this is SwiGLU, with gelu GEGLU
/// (Shazeer, arXiv 2002.05202).
void glu_forward(const ExecutionContext& context, Activation activation, const Tensor& gate, const Tensor& up, const Tensor& y,
                 ActivationParameters parameters = {});

/// d_gate = dy·up·activation'(gate),  d_up = dy·activation(gate).
void glu_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& gate, const Tensor& up,
                        const Tensor& d_gate, const Tensor& d_up, ActivationParameters parameters = {});

/// Adds Σ dy·∂activation(x)/∂parameters[i] to d_parameters[i], f32 [1], or with `up` Σ dy·up·∂activation(x)/∂parameters[i]: terms in fp32,
/// sums in double over chunks of 4096 elements that are added in order (on a GPU, parts of a fixed size). Does not depend on the thread
/// count.
void activation_parameter_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x,
                                   const Tensor* up, ActivationParameters parameters, std::span<const Tensor> d_parameters);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(activation_forward)> activation_forward("activation_forward");
inline constinit Kernel<decltype(activation_input_gradient)> activation_input_gradient("activation_input_gradient");
inline constinit Kernel<decltype(glu_forward)> glu_forward("glu_forward");
inline constinit Kernel<decltype(glu_input_gradient)> glu_input_gradient("glu_input_gradient");
inline constinit Kernel<decltype(activation_parameter_gradient)> activation_parameter_gradient("activation_parameter_gradient");
}  // namespace table

}  // namespace millrace::kernels
