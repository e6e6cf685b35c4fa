#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"

/// The fast loops of kernels/elementwise.hpp, elements split over the team; operands are checked by the caller.
namespace millrace::kernels::cpu {

void add(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& y);
void scale(const ExecutionContext& context, const Tensor& x, float factor, const Tensor& y);
void accumulate(const ExecutionContext& context, const Tensor& x, const Tensor& accumulator);
void convert(const ExecutionContext& context, const Tensor& x, const Tensor& y);
void fill_zero(const ExecutionContext& context, const Tensor& y);

}  // namespace millrace::kernels::cpu
