#pragma once

#include "kernels/base/stream.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// Σ x² of an f32 tensor in double: chunks of 4096 elements, each summed in a fixed lane order, chunks added in order. Independent of the
/// thread count. Not finite when any entry is not.
[[nodiscard]] double square_sum(const Stream& stream, const Tensor& x);

}  // namespace millrace::kernels
