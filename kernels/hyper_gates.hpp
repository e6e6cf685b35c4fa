#pragma once

#include "kernels/base/execution_context.hpp"
#include "kernels/base/hyper_gates_options.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// The gates of manifold-constrained hyper-connections (mHC, Xie et al., arXiv 2512.24880, section 4) for k residual streams. x [T, 2·k +
/// n], n = residual_logits(options), has three parts per token, y [T, 2·k + k·k] of the same dtype as many:
///   pre, k:       σ(x) + 1e-6        how much of each stream the branch reads
///   post, k:      2·σ(x)             how much of the branch's result each stream gets
///   map, k x k:   n numbers          R[i, m], how much of stream i goes on in stream m: softmax over m, then Sinkhorn and Knopp's
///                                    normalisation of columns and rows by turns, `iterations` times; or in the lite form the mean of all
///                                    permutations in lexicographic order, weighted by a softmax whose results are rounded to y's dtype
/// Computed in double and rounded once. Tokens are independent of each other.
void hyper_gates(const ExecutionContext& context, const Tensor& x, HyperGatesOptions options, const Tensor& y);

/// dx from dy, through every step of the normalisation, which is computed again from x.
void hyper_gates_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, HyperGatesOptions options,
                                const Tensor& dx);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(hyper_gates)> hyper_gates("hyper_gates");
inline constinit Kernel<decltype(hyper_gates_input_gradient)> hyper_gates_input_gradient("hyper_gates_input_gradient");
}  // namespace table

}  // namespace millrace::kernels
