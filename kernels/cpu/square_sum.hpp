#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels::cpu {

/// The fast loops of kernels/square_sum.hpp.
[[nodiscard]] double square_sum(const ExecutionContext& context, const Tensor& x);

}  // namespace millrace::kernels::cpu
