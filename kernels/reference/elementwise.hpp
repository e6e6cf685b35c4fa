#pragma once

#include "kernels/base/tensor.hpp"

/// The plain loops of kernels/elementwise.hpp; operands are checked by the caller.
namespace millrace::kernels::reference {

void add(const Tensor& a, const Tensor& b, const Tensor& y);
void scale(const Tensor& x, float factor, const Tensor& y);
void accumulate(const Tensor& x, const Tensor& accumulator);
void convert(const Tensor& x, const Tensor& y);
void fill_zero(const Tensor& y);

}  // namespace millrace::kernels::reference
