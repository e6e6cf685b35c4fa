#pragma once

#include <cstddef>

#include "kernels/cuda/attention_kernels.hpp"

/// The gradients of attention on the tensor cores of a Hopper GPU (compute capability 9.0): bf16, one head size for keys and values of up
/// to 128 in steps of 8, rows of whole 64 tokens, no soft cap. All masks: causal or full, windows, chunks and segments.
namespace millrace::kernels::cuda {

/// Same contract as tiled_attention_input_gradient; false: the call is another one, or the device is, and nothing was enqueued. `scratch`:
/// attention_gradient_scratch_on_hopper.
[[nodiscard]] bool attention_input_gradient_on_hopper(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k,
                                                      const Tensor& v, const Tensor& o, const Tensor& log_sum_exp, const Tensor& segments,
                                                      AttentionOptions options, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                                                      const SegmentRange* ranges, Scratch scratch);

/// Its scratch for these shapes; 0 if it does not take them. Computed without a device.
[[nodiscard]] std::size_t attention_gradient_scratch_on_hopper(const Shape& q, const Shape& k, DType dtype, AttentionOptions options);

}  // namespace millrace::kernels::cuda
