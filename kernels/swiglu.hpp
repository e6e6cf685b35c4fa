#pragma once

#include "kernels/base/stream.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// y = gate·sigmoid(gate)·up, elementwise, in fp32, stored in the operands' dtype. (Shazeer, GLU Variants, arXiv 2002.05202.)
void swiglu_forward(const Stream& stream, const Tensor& gate, const Tensor& up, const Tensor& y);

/// d_gate = dy·up·σ(gate)·(1 + gate·(1 − σ(gate))),  d_up = dy·gate·σ(gate).
void swiglu_input_gradient(const Stream& stream, const Tensor& dy, const Tensor& gate, const Tensor& up, const Tensor& d_gate,
                           const Tensor& d_up);

}  // namespace millrace::kernels
