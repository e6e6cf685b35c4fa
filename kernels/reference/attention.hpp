#pragma once

#include "kernels/attention.hpp"

/// The plain loops of kernels/attention.hpp, one row of scores at a time, sums in double; operands are checked by the caller.
/// Scratch holds reference::attention_scratch_bytes.
namespace millrace::kernels::reference {

void attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments, AttentionOptions options, const Tensor& o,
                       const Tensor& log_sum_exp, Scratch scratch, const Tensor* sinks);
/// Of query heads [begin, end).
void attention_sink_gradient(const Tensor& d_o, const Tensor& o, const Tensor& log_sum_exp, const Tensor& sinks, std::int64_t begin,
                             std::int64_t end, const Tensor& d_sinks);
void attention_input_gradient(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                              const Tensor& log_sum_exp, const Tensor& segments, AttentionOptions options, const Tensor& dq,
                              const Tensor& dk, const Tensor& dv, Scratch scratch);
[[nodiscard]] std::size_t attention_scratch_bytes(const Shape& k, AttentionOptions options);

}  // namespace millrace::kernels::reference
