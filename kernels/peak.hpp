#pragma once

#include "kernels/base/dtype.hpp"
#include "kernels/base/queue.hpp"

namespace millrace::kernels {

/// What one core multiplies at best, FLOP/s: the fastest of some 512 x 512 x 512 matmuls of this dtype with fp32 sums, timed here and now
/// for about 60 ms. The denominator of model FLOPs utilisation.
[[nodiscard]] double measured_peak_flops(DType dtype);

/// What a GPU multiplies at best, FLOP/s, by its data sheet: dense, with fp32 sums; `tf32`: f32 products may use it. 0: unknown, as of a
/// part of a GPU (MIG).
[[nodiscard]] double device_peak_flops(const DeviceDescription& device, DType dtype, bool tf32);

}  // namespace millrace::kernels
