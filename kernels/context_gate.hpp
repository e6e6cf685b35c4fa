#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// The least size of a score whose root is taken, which bounds the slope of the root.
inline constexpr float context_gate_floor = 1e-6F;

/// The most residual streams that a value is gated for.
inline constexpr std::int64_t max_gated_streams = 64;

/// The gate through which a layer takes a value from an n-gram memory (Engram; MaxText's layers/engram.py): for stream i of k
///
///   z_i = ⟨q_i, k_i⟩ / √D,   g_i = σ(sign(z_i)·√max(|z_i|, context_gate_floor)),   y_i = g_i·v,
///
/// with sign(0) = 0. q, keys and y [T, k·D], stream after stream, v [T, D], all of one dtype, f32 or bf16; z f32 [T, k] is kept for the
/// gradients. Sums are in fp32 and results are rounded once; tokens are independent of each other. Throws Error(internal) for more than
/// max_gated_streams streams.
void context_gate_forward(const ExecutionContext& context, const Tensor& q, const Tensor& keys, const Tensor& v, const Tensor& z,
                          const Tensor& y);

/// dv = Σ_i g_i·dy_i, in the order of the streams; dz_i = ⟨dy_i, v⟩·g_i·(1 − g_i) / (2·√|z_i|), or 0 where |z_i| is not above the floor;
/// dq_i = dz_i·k_i / √D; d_keys_i = dz_i·q_i / √D.
void context_gate_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& q, const Tensor& keys, const Tensor& v,
                           const Tensor& z, const Tensor& dq, const Tensor& d_keys, const Tensor& dv);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(context_gate_forward)> context_gate_forward("context_gate_forward");
inline constinit Kernel<decltype(context_gate_gradient)> context_gate_gradient("context_gate_gradient");
}  // namespace table

}  // namespace millrace::kernels
