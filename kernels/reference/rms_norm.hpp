#pragma once

#include "kernels/base/tensor.hpp"
#include "kernels/rms_norm.hpp"

/// The plain loops of kernels/rms_norm.hpp; operands are checked by the caller. Sums in double.
namespace millrace::kernels::reference {

void rms_norm_forward(const Tensor& x, const Tensor& w, RmsNormOptions options, const Tensor& y, const Tensor& r);
void rms_norm_input_gradient(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& r, RmsNormOptions options, const Tensor& dx,
                             const Tensor* addend = nullptr);
void rms_norm_weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dw);

}  // namespace millrace::kernels::reference
