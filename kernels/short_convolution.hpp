#pragma once

#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/short_convolution_options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// A causal convolution along the row, each channel by itself: with W taps, dilation δ places apart,
///
///   c[t, n] = Σ_j w[n, j]·x[t − (W − 1 − j)·δ, n],  j = 0 … W − 1 in order,  y = c or silu(c),
///
/// where tokens before the row's first (or the segment's) count as zero. x, y [T, C] of one dtype, f32 or bf16; w [C, 1, W] as checkpoints
/// store it, or [C, W], f32 or x's dtype; segments i32 [T]. Sums in fp32. Does not depend on the thread count. Throws Error(config) unless
/// 1 <= W <= max_convolution_taps and (W − 1)·δ + 1 <= max_convolution_span.
void short_convolution_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, const Tensor& segments,
                               ShortConvolutionOptions options, const Tensor& y);

/// dx[t, n] = Σ_j w[n, j]·dc[t + (W − 1 − j)·δ, n] with dc = dy or dy·silu'(c), from j = W − 1 down; c is computed again.
void short_convolution_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w,
                                      const Tensor& segments, ShortConvolutionOptions options, const Tensor& dx);

/// dw[n, j] += Σ_t dc[t, n]·x[t − (W − 1 − j)·δ, n]; tokens in blocks of fixed size, blocks in order. dw f32, of w's shape.
void short_convolution_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w,
                                       const Tensor& segments, ShortConvolutionOptions options, const Tensor& dw);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(short_convolution_forward)> short_convolution_forward("short_convolution_forward");
inline constinit Kernel<decltype(short_convolution_input_gradient)> short_convolution_input_gradient("short_convolution_input_gradient");
inline constinit Kernel<decltype(short_convolution_weight_gradient)> short_convolution_weight_gradient("short_convolution_weight_gradient");
}  // namespace table

}  // namespace millrace::kernels
