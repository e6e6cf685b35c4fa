#pragma once

#include "kernels/base/tensor.hpp"

/// The plain loops of kernels/embedding.hpp; operands are checked by the caller.
namespace millrace::kernels::reference {

void embedding_forward(const Tensor& tokens, const Tensor& table, const Tensor& y);
void embedding_weight_gradient(const Tensor& tokens, const Tensor& dy, const Tensor& gradient);

}  // namespace millrace::kernels::reference
