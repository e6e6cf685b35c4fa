#pragma once

#include "kernels/adamw.hpp"

namespace millrace::kernels::cpu {

/// One pass over all five tensors, elements split over the team; the bits are those of the reference. Operands are checked by the caller.
void adamw(const ExecutionContext& context, const AdamwScalars& scalars, const Tensor& p, const Tensor& m, const Tensor& v,
           const Tensor& gradient, const Tensor& copy);

}  // namespace millrace::kernels::cpu
