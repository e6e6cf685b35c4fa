#pragma once

#include "kernels/base/tensor.hpp"
#include "kernels/layer_norm.hpp"

/// The plain loops of kernels/layer_norm.hpp; operands are checked by the caller. Sums in double.
namespace millrace::kernels::reference {

void layer_norm_forward(const Tensor& x, const Tensor& w, const Tensor& b, LayerNormOptions options, const Tensor& y, const Tensor& m,
                        const Tensor& r);
void layer_norm_input_gradient(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& m, const Tensor& r,
                               LayerNormOptions options, const Tensor& dx);
void layer_norm_weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& m, const Tensor& r, const Tensor& dw, const Tensor& db);

}  // namespace millrace::kernels::reference
