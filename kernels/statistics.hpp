#pragma once

#include <cstdint>

#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// Summary statistics of a tensor, to be shown to a user; for hooks, not for hot paths. Any dtype, plain loops. All values except
/// not_finite ignore elements that are not finite.
struct Statistics {
  double minimum = 0, maximum = 0, mean = 0, norm = 0;
  std::int64_t not_finite = 0;
};
[[nodiscard]] Statistics statistics(const Tensor& x);

}  // namespace millrace::kernels
