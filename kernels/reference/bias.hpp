#pragma once

#include "kernels/base/tensor.hpp"

/// The plain loops of kernels/bias.hpp; operands are checked by the caller. Sums in double.
namespace millrace::kernels::reference {

void bias_forward(const Tensor& x, const Tensor& b, const Tensor& y);
void bias_weight_gradient(const Tensor& dy, const Tensor& db);

}  // namespace millrace::kernels::reference
