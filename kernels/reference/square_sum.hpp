#pragma once

#include "kernels/base/tensor.hpp"

namespace millrace::kernels::reference {

/// The plain loops of kernels/square_sum.hpp: chunks in order, elements in order.
[[nodiscard]] double square_sum(const Tensor& x);

}  // namespace millrace::kernels::reference
