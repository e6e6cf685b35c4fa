#pragma once

#include "kernels/linear_cross_entropy.hpp"

/// The plain loops of kernels/linear_cross_entropy.hpp: one row of logits at a time, in double. Operands are checked by the caller.
namespace millrace::kernels::reference {

void linear_logits(const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& logits);
void linear_cross_entropy_forward(const Tensor& h, const Tensor& w, const Tensor& targets, CrossEntropyOptions options, const Tensor& loss,
                                  const Tensor& log_sum_exp);

/// Either gradient may be null.
void linear_cross_entropy_gradients(const Tensor& h, const Tensor& w, const Tensor& targets, const Tensor& log_sum_exp, const Tensor& g,
                                    CrossEntropyOptions options, const Tensor* dh, const Tensor* dw);

}  // namespace millrace::kernels::reference
