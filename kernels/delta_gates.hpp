#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct DeltaGatesOptions {
  // bf16: A_log, dt_bias and g are rounded to the operands' dtype, as in MaxText; false: the decay is fp32, as in transformers
  bool round_decay = false;

  static constexpr auto members() { return std::tuple(member("round_decay", &DeltaGatesOptions::round_decay)); }
};

/// The gates of a gated delta net (arXiv 2412.06464), per token and head:
///
///   g = −exp(A_log)·softplus(a + dt_bias),  beta = sigmoid(b),
///
/// in fp32; beta is rounded to the dtype of b, in which both MaxText and transformers compute it. a, b [T, H] of one dtype, f32 or bf16;
/// A_log, dt_bias f32 [H]; g, beta f32 [T, H]. g is the logarithm of a decay and never above 0. softplus(x) = max(x, 0) + log(1 + e^−|x|).
void delta_gates_forward(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias,
                         DeltaGatesOptions options, const Tensor& g, const Tensor& beta);

/// da = −exp(A_log)·sigmoid(a + dt_bias)·dg,  db = beta·(1 − beta)·dbeta, with the beta before it is rounded; gradients pass through the
/// rounding of A_log and dt_bias. dg, dbeta f32 [T, H]; da, db have the dtype of a.
void delta_gates_input_gradient(const ExecutionContext& context, const Tensor& dg, const Tensor& dbeta, const Tensor& a, const Tensor& b,
                                const Tensor& a_log, const Tensor& dt_bias, DeltaGatesOptions options, const Tensor& da, const Tensor& db);

/// Adds Σ_t dg·g to d_a_log and Σ_t da to d_dt_bias (with g and da before they are rounded), both f32 [H]; tokens in blocks of fixed size,
/// blocks in order. No call depends on the thread count.
void delta_gates_weight_gradient(const ExecutionContext& context, const Tensor& dg, const Tensor& a, const Tensor& a_log,
                                 const Tensor& dt_bias, DeltaGatesOptions options, const Tensor& d_a_log, const Tensor& d_dt_bias);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(delta_gates_forward)> delta_gates_forward("delta_gates_forward");
inline constinit Kernel<decltype(delta_gates_input_gradient)> delta_gates_input_gradient("delta_gates_input_gradient");
inline constinit Kernel<decltype(delta_gates_weight_gradient)> delta_gates_weight_gradient("delta_gates_weight_gradient");
}  // namespace table

}  // namespace millrace::kernels
