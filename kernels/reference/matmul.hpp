#pragma once

#include "kernels/matmul.hpp"

namespace millrace::kernels::reference {

/// The plain loops of kernels/matmul.hpp, sums in double; operands are checked by the caller.
void matmul(const Tensor& a, const Tensor& b, const Tensor& c, MatmulOptions options, const Tensor* addend = nullptr);

}  // namespace millrace::kernels::reference
