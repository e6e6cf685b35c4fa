#pragma once

#include "kernels/base/stream.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels::cpu {

/// The fast loops of kernels/square_sum.hpp.
[[nodiscard]] double square_sum(const Stream& stream, const Tensor& x);

}  // namespace millrace::kernels::cpu
