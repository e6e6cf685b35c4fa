#pragma once

#include "kernels/attention.hpp"

/// The fast kernels of kernels/attention.hpp; operands are checked by the caller.
namespace millrace::kernels::cpu {

void attention_forward(ThreadTeam& team, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments,
                       AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch scratch, const Tensor* sinks);
void attention_input_gradient(ThreadTeam& team, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                              const Tensor& log_sum_exp, const Tensor& segments, AttentionOptions options, const Tensor& dq,
                              const Tensor& dk, const Tensor& dv, Scratch scratch);
[[nodiscard]] std::size_t attention_scratch_bytes(const Shape& q, const Shape& k, AttentionOptions options, int threads);

}  // namespace millrace::kernels::cpu
