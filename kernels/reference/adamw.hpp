#pragma once

#include "kernels/adamw.hpp"

namespace millrace::kernels::reference {

/// The plain loop of kernels/adamw.hpp; operands are checked by the caller.
void adamw(const AdamwScalars& scalars, const Tensor& p, const Tensor& m, const Tensor& v, const Tensor& gradient, const Tensor& copy);

}  // namespace millrace::kernels::reference
