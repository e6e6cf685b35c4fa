#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// The z-loss of a router, which keeps its logits small (ST-MoE, Zoph et al., arXiv 2202.08906, equation 5): logits f32 or bf16 [T, E] →
/// loss[0] = Σ_t z[t]², f64 [1], with z[t] = log Σ_e exp(logits[t, e]). A sum over tokens: the paper divides it by their number. The sum
/// over experts is computed in fp32 in an order that depends on E alone, its logarithm and the sum over tokens in f64 in an order that
/// depends on T alone.
void router_z_loss(const ExecutionContext& context, const Tensor& logits, const Tensor& loss);

/// d_logits[t] = 2 · scale · z[t] · softmax(logits[t]), in the dtype of logits. scale f32 [1].
void router_z_loss_input_gradient(const ExecutionContext& context, const Tensor& logits, const Tensor& scale, const Tensor& d_logits);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(router_z_loss)> router_z_loss("router_z_loss");
inline constinit Kernel<decltype(router_z_loss_input_gradient)> router_z_loss_input_gradient("router_z_loss_input_gradient");
}  // namespace table

}  // namespace millrace::kernels
