#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct RmsNormOptions {
  float epsilon = 0.0F;
  float offset = 0.0F;  // added to the weights: 1 if a checkpoint stores weights minus 1 (Gemma)
  // bf16: x·r is rounded before it is multiplied by the weight, as in transformers' Llama; false: only the result is rounded
  bool round_first = true;

  static constexpr auto members() {
    return std::tuple(member("epsilon", &RmsNormOptions::epsilon), member("offset", &RmsNormOptions::offset),
                      member("round_first", &RmsNormOptions::round_first));
  }
};

/// y = x · r · (w + offset) with r = 1/sqrt(mean(x²) + epsilon) per row, in fp32. x, y [T, D] of one dtype; w f32 [D], or [k, D] with
/// weights of its own for each of k rows that follow each other: row t has w[t mod k]. r f32 [T] is kept for the gradients.
void rms_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, RmsNormOptions options, const Tensor& y,
                      const Tensor& r);

/// dx = r·(g − x·r²·mean(g·x)) with g = dy·(w + offset). dx has the dtype of dy; so has `addend`, which is added before dx is rounded.
void rms_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& r,
                             RmsNormOptions options, const Tensor& dx, const Tensor* addend = nullptr);

/// dw[d] += sum over t of dy[t,d]·x[t,d]·r[t]; rows in blocks of fixed size, blocks in order. dw f32 [D], or [k, D] for weights [k, D], of
/// which each has the sum over its rows.
void rms_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dw);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(rms_norm_forward)> rms_norm_forward("rms_norm_forward");
inline constinit Kernel<decltype(rms_norm_input_gradient)> rms_norm_input_gradient("rms_norm_input_gradient");
inline constinit Kernel<decltype(rms_norm_weight_gradient)> rms_norm_weight_gradient("rms_norm_weight_gradient");
}  // namespace table

}  // namespace millrace::kernels
