#pragma once

#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct L2NormOptions {
  std::int64_t width = 0;  // D; must be given if x has several vectors in a row; 0: the last axis of x
  float epsilon = 0.0F;    // rounded to x's dtype, as a tensor library does

  static constexpr auto members() { return std::tuple(member("width", &L2NormOptions::width), member("epsilon", &L2NormOptions::epsilon)); }
};

/// y = x · r with r = 1/sqrt(Σx² + epsilon) per row, in fp32, rounded once; a row of zeros stays zero if epsilon is not 0. Without weights.
/// x, y [N, D] of one dtype, f32 or bf16; r f32 [N] is kept for the gradient. (Queries and keys of gated delta nets, arXiv 2412.06464.)
void l2_norm_forward(const ExecutionContext& context, const Tensor& x, L2NormOptions options, const Tensor& y, const Tensor& r);

/// dx = r·(dy − x·r²·Σ(dy·x)). dx has the dtype of dy and x. Neither call depends on the thread count.
void l2_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dx);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(l2_norm_forward)> l2_norm_forward("l2_norm_forward");
inline constinit Kernel<decltype(l2_norm_input_gradient)> l2_norm_input_gradient("l2_norm_input_gradient");
}  // namespace table

}  // namespace millrace::kernels
