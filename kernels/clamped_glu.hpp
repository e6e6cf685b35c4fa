#pragma once

#include "kernels/base/clamped_glu_options.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// y = (u + offset)·g·σ(steepness·g) with g = min(gate, limit) and u = min(max(up, −limit), limit), elementwise, in fp32, stored in the
/// operands' dtype, f32 or bf16: the gated unit of GPT-OSS (arXiv 2508.10925). A NaN stays one. Does not depend on the thread count. All
/// operands have one shape and dtype; throws Error(internal) if they do not.
void clamped_glu_forward(const ExecutionContext& context, const Tensor& gate, const Tensor& up, ClampedGluOptions options, const Tensor& y);

/// With s = σ(steepness·g): d_gate = dy·(u + offset)·s·(1 + steepness·g·(1 − s)) where gate is at most limit, else 0; d_up = dy·g·s where
/// the size of up is at most limit, else 0.
void clamped_glu_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& gate, const Tensor& up,
                                ClampedGluOptions options, const Tensor& d_gate, const Tensor& d_up);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(clamped_glu_forward)> clamped_glu_forward("clamped_glu_forward");
inline constinit Kernel<decltype(clamped_glu_input_gradient)> clamped_glu_input_gradient("clamped_glu_input_gradient");
}  // namespace table

}  // namespace millrace::kernels
