#pragma once

#include <cstddef>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// Output head and loss in one operation. It works in tiles of about as many logits as a thousand entries of the vocabulary have,
/// so that neither the logits nor their gradient are ever in memory as a whole. A tile has some entries for all tokens, or all
/// entries for some tokens.
struct CrossEntropyOptions {
  float z_loss = 0.0F;       // adds z·lse² per token
  float scale = 1.0F;        // multiplies the logits
  float soft_cap = 0.0F;     // logits l become soft_cap·tanh(l / soft_cap); 0: no cap
  bool round_table = false;  // w is rounded to bf16 before the products, and so is each addition to dw: MaxText's tied head

  static constexpr auto members() {
    return std::tuple(member("z_loss", &CrossEntropyOptions::z_loss), member("scale", &CrossEntropyOptions::scale),
                      member("soft_cap", &CrossEntropyOptions::soft_cap), member("round_table", &CrossEntropyOptions::round_table));
  }
};

/// logits = h · wᵀ in fp32 (h [T, D], w [V, D], one dtype), scaled and capped. Over tokens whose target is in [0, V), in order:
///   loss[0] = Σ lse − logit[target] + z·lse²      loss[1] = Σ z·lse²     (f64 [2])
/// log_sum_exp f32 [T] is kept for the gradients. Targets i32 [T]; a negative one is masked: no loss, no gradient; one >= V throws
/// Error(data).
void linear_cross_entropy_forward(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                  CrossEntropyOptions options, const Tensor& loss, const Tensor& log_sum_exp, Scratch scratch);

/// Computes the forward and the gradient of h from the same logits; loss and log_sum_exp have the forward's bits. With the
/// runtime scalar g (f32 [1], 1 / valid targets of the step) and dl = g·((1 + 2·z·lse)·softmax − onehot), times the derivative of
/// scale and cap: dh = dl · w, in the dtype of h. If tiles have only some entries, lse is not known before the last tile: dh is
/// summed over exp(logit − the maximum so far) and rescaled when the maximum grows, as FlashAttention does with the softmax of
/// its scores (Dao et al. 2022, section 3.1).
void linear_cross_entropy_input_gradient(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                         const Tensor& g, CrossEntropyOptions options, const Tensor& dh, const Tensor& loss,
                                         const Tensor& log_sum_exp, Scratch scratch);

/// dw += dlᵀ · h, dw f32 [V, D], with the log_sum_exp of either call above.
void linear_cross_entropy_weight_gradient(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                          const Tensor& log_sum_exp, const Tensor& g, CrossEntropyOptions options, const Tensor& dw,
                                          Scratch scratch);

/// Computes the input gradient and the weight gradient, with the bits of the two calls. If a tile has all entries, its logits are
/// computed once for both.
void linear_cross_entropy_gradients(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                    const Tensor& g, CrossEntropyOptions options, const Tensor& dh, const Tensor& loss,
                                    const Tensor& log_sum_exp, const Tensor& dw, Scratch scratch);

/// Number of products of size [T, V] x D in that call: 3, or 4 if logits are computed for each gradient.
[[nodiscard]] int linear_cross_entropy_gradients_products(const Shape& h, const Shape& w, DType dtype, CrossEntropyOptions options,
                                                          const Processor& processor = {});

/// The logits themselves, f32 [T, V], with the bits that the loss uses.
void linear_logits(const ExecutionContext& context, const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& logits,
                   Scratch scratch);

/// The entry with the largest logit of each token, the first of equal ones: i32 [T], from the logits of the loss.
void linear_argmax(const ExecutionContext& context, const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& entries,
                   Scratch scratch);

/// Scratch for any of the calls: one tile of logits and the matmul's scratch.
[[nodiscard]] std::size_t linear_cross_entropy_scratch_bytes(const Shape& h, const Shape& w, DType dtype, CrossEntropyOptions options,
                                                             const Processor& processor);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(linear_cross_entropy_forward)> linear_cross_entropy_forward("linear_cross_entropy_forward");
inline constinit Kernel<decltype(linear_cross_entropy_input_gradient)> linear_cross_entropy_input_gradient(
    "linear_cross_entropy_input_gradient");
inline constinit Kernel<decltype(linear_cross_entropy_weight_gradient)> linear_cross_entropy_weight_gradient(
    "linear_cross_entropy_weight_gradient");
inline constinit Kernel<decltype(linear_cross_entropy_gradients)> linear_cross_entropy_gradients("linear_cross_entropy_gradients");
inline constinit Kernel<decltype(linear_cross_entropy_gradients_products)> linear_cross_entropy_gradients_products(
    "linear_cross_entropy_gradients_products");
inline constinit Kernel<decltype(linear_logits)> linear_logits("linear_logits");
inline constinit Kernel<decltype(linear_argmax)> linear_argmax("linear_argmax");
inline constinit Kernel<decltype(linear_cross_entropy_scratch_bytes)> linear_cross_entropy_scratch_bytes(
    "linear_cross_entropy_scratch_bytes");
}  // namespace table

}  // namespace millrace::kernels
