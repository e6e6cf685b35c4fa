#pragma once

#include "kernels/attention.hpp"

/// Attention with a choice of blocks, by plain kernels with a warp for each query or key: any head size up to kMaximumHeadSize.
namespace millrace::kernels::cuda {

void attention_of_blocks_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments,
                                 AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, const Tensor* sinks,
                                 const Tensor& choice);

/// `delta`: f32 [T, H], scratch.
void attention_of_blocks_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const Tensor& o, const Tensor& log_sum_exp, const Tensor& segments,
                                        AttentionOptions options, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                                        const Tensor& choice, float* delta);

}  // namespace millrace::kernels::cuda
