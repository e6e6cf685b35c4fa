#pragma once

#include "kernels/base/device_type.hpp"
#include "kernels/base/dtype.hpp"

namespace millrace::kernels {

/// Peak FLOP/s of `threads` threads together: the fastest of several large square products of this dtype with fp32 sums, on one
/// team, measured for about 0.1 s. It is the one peak of a machine: model FLOPs utilisation and every other fraction of the peak
/// divides by it. It is not cores times the rate of one core, because cores share matrix units, caches, clock and memory.
/// `threads` is at least 1 and at most the number of cores.
[[nodiscard]] double measured_peak_flops(DType dtype, int threads);

/// Peak FLOP/s of a GPU by its data sheet: dense, with fp32 sums; `tf32`: f32 products may use tf32. 0: unknown, for example for
/// a part of a GPU (MIG).
[[nodiscard]] double device_peak_flops(const DeviceDescription& device, DType dtype, bool tf32);

}  // namespace millrace::kernels
