#pragma once

#include "kernels/base/tensor.hpp"
#include "kernels/rope.hpp"

/// The plain loop of kernels/rope.hpp; operands are checked by the caller.
namespace millrace::kernels::reference {

void rope(const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, RopeOptions options, const Tensor& y);

}  // namespace millrace::kernels::reference
