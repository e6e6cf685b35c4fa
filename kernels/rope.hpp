#pragma once

#include "kernels/base/stream.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// Rotary embedding in the half-split layout: for head vector x and i < D/2, with φ = positions[t]·inverse_frequencies[i]:
///   y[i] = x[i] cos φ − x[i+D/2] sin φ,   y[i+D/2] = x[i+D/2] cos φ + x[i] sin φ.
/// x, y [T, H, D] of one dtype (may be the same memory); positions i32 [T]; inverse_frequencies f32 [D/2]. cos and sin are rounded to x's
/// dtype as transformers does; the rest is fp32 with one rounding at the end (transformers rounds each product and sum). D even, else
/// Error(config). direction −1 rotates back: the gradient of the input.
void rope(const Stream& stream, const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, int direction,
          const Tensor& y);

}  // namespace millrace::kernels
