#pragma once

#include "kernels/base/device_context.hpp"
#include "kernels/base/dtype.hpp"

namespace millrace::kernels {

/// What `threads` threads multiply at best together, FLOP/s: the fastest of several large square products of this dtype with fp32 sums, on
/// one team, timed here and now for some 0.1 s. The one peak of a machine: model FLOPs utilisation and every other share of
/// the peak divides by it. Not cores times what one core does: cores share matrix units, caches, clock and memory. `threads` at least 1, no
/// more than the cores.
[[nodiscard]] double measured_peak_flops(DType dtype, int threads);

/// What a GPU multiplies at best, FLOP/s, by its data sheet: dense, with fp32 sums; `tf32`: f32 products may use it. 0: unknown, as of a
/// part of a GPU (MIG).
[[nodiscard]] double device_peak_flops(const DeviceDescription& device, DType dtype, bool tf32);

}  // namespace millrace::kernels
