#pragma once

#include "kernels/base/shape.hpp"

namespace millrace::layers {

/// Weight decay is for matrices: tensors of two and more axes. Norm scales and biases are spared.
[[nodiscard]] constexpr bool decays(const kernels::Shape& shape) noexcept { return shape.rank() >= 2; }

}  // namespace millrace::layers
