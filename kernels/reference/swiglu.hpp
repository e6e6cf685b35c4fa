#pragma once

#include "kernels/base/tensor.hpp"

/// The plain loops of kernels/swiglu.hpp; operands are checked by the caller.
namespace millrace::kernels::reference {

void swiglu_forward(const Tensor& gate, const Tensor& up, const Tensor& y);
void swiglu_input_gradient(const Tensor& dy, const Tensor& gate, const Tensor& up, const Tensor& d_gate, const Tensor& d_up);

}  // namespace millrace::kernels::reference
