#pragma once

#include <cstdint>

#include "kernels/base/tensor.hpp"

namespace millrace::kernels::reference {

/// attention_sink_gradient of query heads [begin, end), which the CPU's backend cuts between its threads.
void attention_sink_gradient_of_heads(const Tensor& d_o, const Tensor& o, const Tensor& log_sum_exp, const Tensor& sinks,
                                      std::int64_t begin, std::int64_t end, const Tensor& d_sinks);

}  // namespace millrace::kernels::reference
