#pragma once

#include "kernels/base/dtype.hpp"

namespace millrace::kernels {

/// What one core multiplies at best, FLOP/s: the fastest of some 512 x 512 x 512 matmuls of this dtype with fp32 sums, timed here and now
/// for about 60 ms. The denominator of model FLOPs utilisation.
[[nodiscard]] double measured_peak_flops(DType dtype);

}  // namespace millrace::kernels
