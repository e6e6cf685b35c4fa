#pragma once

#include <cstdint>

#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// What a person wants to know of a tensor at a glance; for hooks, not for hot paths. Any dtype, plain loops. All but
/// not_finite leave out what is not finite.
struct Statistics {
  double minimum = 0, maximum = 0, mean = 0, norm = 0;
  std::int64_t not_finite = 0;
};
[[nodiscard]] Statistics statistics(const Tensor& x);

}  // namespace millrace::kernels
