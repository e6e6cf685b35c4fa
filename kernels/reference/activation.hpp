#pragma once

#include "kernels/activation.hpp"
#include "kernels/base/tensor.hpp"

/// The plain loops of kernels/activation.hpp; operands are checked by the caller.
namespace millrace::kernels::reference {

void activation_forward(Activation activation, const Tensor& x, const Tensor& y);
void activation_input_gradient(Activation activation, const Tensor& dy, const Tensor& x, const Tensor& dx);
void glu_forward(Activation activation, const Tensor& gate, const Tensor& up, const Tensor& y);
void glu_input_gradient(Activation activation, const Tensor& dy, const Tensor& gate, const Tensor& up, const Tensor& d_gate,
                        const Tensor& d_up);

}  // namespace millrace::kernels::reference
