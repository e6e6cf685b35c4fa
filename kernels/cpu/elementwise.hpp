#pragma once

#include "kernels/base/stream.hpp"
#include "kernels/base/tensor.hpp"

/// The fast loops of kernels/elementwise.hpp, elements split over the team; operands are checked by the caller.
namespace millrace::kernels::cpu {

void add(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& y);
void scale(const Stream& stream, const Tensor& x, float factor, const Tensor& y);
void accumulate(const Stream& stream, const Tensor& x, const Tensor& accumulator);
void convert(const Stream& stream, const Tensor& x, const Tensor& y);
void fill_zero(const Stream& stream, const Tensor& y);

}  // namespace millrace::kernels::cpu
