#pragma once

#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

/// The residual streams of hyper-connections (Zhu et al., arXiv 2409.19606; mHC: arXiv 2512.24880): X [T, k·D], stream after stream for
/// each token. All operands of a call have one dtype, f32 or bf16; sums are in fp32, over the streams in order, and are rounded once.
/// Tokens are independent of each other.
namespace millrace::kernels {

/// X_i = x for every stream i: x [T, D] → X [T, k·D].
void expand_streams(const ExecutionContext& context, const Tensor& x, const Tensor& streams);

/// y = Σ_i X_i: X [T, k·D] → y [T, D].
void reduce_streams(const ExecutionContext& context, const Tensor& streams, const Tensor& y);

/// y = Σ_i pre_i · X_i, what a branch reads: X [T, k·D], pre [T, k] → y [T, D].
void collect_streams(const ExecutionContext& context, const Tensor& streams, const Tensor& pre, const Tensor& y);

/// d_streams_i = pre_i · dy; d_pre_i = ⟨X_i, dy⟩.
void collect_streams_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& streams, const Tensor& pre,
                              const Tensor& d_streams, const Tensor& d_pre);

/// Y_m = Σ_i map[i, m] · X_i + post_m · v, the streams with the branch's result v [T, D]: X [T, k·D], post [T, k], map [T, k·k] →
/// Y [T, k·D].
void spread_streams(const ExecutionContext& context, const Tensor& streams, const Tensor& v, const Tensor& post, const Tensor& map,
                    const Tensor& y);

/// d_streams_i = Σ_m map[i, m] · dY_m; dv = Σ_m post_m · dY_m; d_post_m = ⟨v, dY_m⟩; d_map[i, m] = ⟨X_i, dY_m⟩.
void spread_streams_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& streams, const Tensor& v, const Tensor& post,
                             const Tensor& map, const Tensor& d_streams, const Tensor& dv, const Tensor& d_post, const Tensor& d_map);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(expand_streams)> expand_streams("expand_streams");
inline constinit Kernel<decltype(reduce_streams)> reduce_streams("reduce_streams");
inline constinit Kernel<decltype(collect_streams)> collect_streams("collect_streams");
inline constinit Kernel<decltype(collect_streams_gradient)> collect_streams_gradient("collect_streams_gradient");
inline constinit Kernel<decltype(spread_streams)> spread_streams("spread_streams");
inline constinit Kernel<decltype(spread_streams_gradient)> spread_streams_gradient("spread_streams_gradient");
}  // namespace table

}  // namespace millrace::kernels
