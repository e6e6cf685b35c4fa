#pragma once

#include "kernels/base/tensor.hpp"

namespace millrace::kernels::reference {

void add_sinusoid(const Tensor& x, const Tensor& positions, const Tensor& inverse_timescales, const Tensor& y);

}  // namespace millrace::kernels::reference
