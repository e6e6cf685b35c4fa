#pragma once

#include "kernels/base/tensor.hpp"

/// The plain loops of kernels/rms_norm.hpp; operands are checked by the caller. Sums in double.
namespace millrace::kernels::reference {

void rms_norm_forward(const Tensor& x, const Tensor& w, float epsilon, const Tensor& y, const Tensor& r);
void rms_norm_input_gradient(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& r, const Tensor& dx);
void rms_norm_weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dw);

}  // namespace millrace::kernels::reference
