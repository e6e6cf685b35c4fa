#pragma once

#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct BalanceLossOptions {
  std::int64_t sequences = 1;  // B of the microbatch; each has S = T / B tokens

  static constexpr auto members() { return std::tuple(member("sequences", &BalanceLossOptions::sequences)); }
};

/// The balance loss of a router, which is smallest if its experts are used evenly (Switch Transformers, Fedus et al., arXiv 2101.03961,
/// equations 4 to 6), of each sequence by itself. With choices[b, e], the number of times that tokens of sequence b chose expert e,
///   f[b, e] = choices[b, e] / S,   q[t] = softmax(logits[t]),   m[b, e] = the mean of q[t, e] over the tokens of sequence b,
///   loss[0] = E · Σ_b Σ_e f[b, e] · m[b, e],
/// which is B · K if the choices are even. A sum over sequences: divided by their number it is E · the mean of Σ_e f · m.
/// transformers' load_balancing_loss_func takes f and m over the tokens of the whole batch and of all layers, which depends on the layout;
/// MaxText's mean over b and e of E² · f · m is this loss divided by B.
///
/// logits f32 or bf16 [T, E], experts i32 [T, K] → loss f64 [1], choices i32 [B, E]. The softmax and Σ_e choices · q of a token are
/// computed in fp32 in an order that depends on E alone, the sum over tokens in f64 in an order that depends on T alone. Throws
/// Error(internal) if B does not divide T, and for an expert outside [0, E), naming position and value; a device reports it when its work
/// is done.
void balance_loss(const ExecutionContext& context, const Tensor& logits, const Tensor& experts, BalanceLossOptions options,
                  const Tensor& loss, const Tensor& choices);

/// d_logits[t] = q ⊙ (dq − ⟨dq, q⟩) with dq[e] = scale · E · choices[b, e] / S², in the dtype of logits [T, E]. choices i32 [B, E] are
/// those of the call above: no gradient flows through them. scale f32 [1].
void balance_loss_input_gradient(const ExecutionContext& context, const Tensor& logits, const Tensor& choices, const Tensor& scale,
                                 BalanceLossOptions options, const Tensor& d_logits);

/// E / S², the factor of the loss and of its gradient for these logits [T, E]; 0 without tokens.
[[nodiscard]] inline double balance_factor(const Shape& logits, BalanceLossOptions options) {
  const std::int64_t tokens = logits[0] / options.sequences;
  const auto sequence = static_cast<double>(tokens);
  return sequence > 0 ? static_cast<double>(logits[1]) / (sequence * sequence) : 0.0;
}

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(balance_loss)> balance_loss("balance_loss");
inline constinit Kernel<decltype(balance_loss_input_gradient)> balance_loss_input_gradient("balance_loss_input_gradient");
}  // namespace table

}  // namespace millrace::kernels
