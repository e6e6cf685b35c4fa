#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct LayerNormOptions {
  float epsilon = 0.0F;
  float offset = 0.0F;  // added to the weights: 1 if a checkpoint stores weights minus 1 (MaxText's GPT-3)

  static constexpr auto members() {
    return std::tuple(member("epsilon", &LayerNormOptions::epsilon), member("offset", &LayerNormOptions::offset));
  }
};

/// y = (x − m) · r · (w + offset) + b in fp32 with one rounding at the end. m is the mean of a row, and r = 1/sqrt(variance +
/// epsilon) with the biased variance (divided by D). x, y [T, D] of one dtype; w, b f32 [D]; m, r f32 [T] are kept for the
/// gradients. (Ba et al., arXiv 1607.06450.)
void layer_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, const Tensor& b, LayerNormOptions options,
                        const Tensor& y, const Tensor& m, const Tensor& r);

/// With n = (x − m)·r and g = dy·(w + offset): dx = r·(g − mean(g) − n·mean(g·n)). dx has the dtype of dy.
void layer_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& m,
                               const Tensor& r, LayerNormOptions options, const Tensor& dx);

/// dw[d] += sum over t of dy[t,d]·n[t,d], db[d] += sum over t of dy[t,d]; rows in blocks of fixed size, blocks in order. dw, db f32 [D].
void layer_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& m, const Tensor& r,
                                const Tensor& dw, const Tensor& db);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(layer_norm_forward)> layer_norm_forward("layer_norm_forward");
inline constinit Kernel<decltype(layer_norm_input_gradient)> layer_norm_input_gradient("layer_norm_input_gradient");
inline constinit Kernel<decltype(layer_norm_weight_gradient)> layer_norm_weight_gradient("layer_norm_weight_gradient");
}  // namespace table

}  // namespace millrace::kernels
