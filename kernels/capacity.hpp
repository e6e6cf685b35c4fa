#pragma once

#include "kernels/base/capacity_options.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// Drops the choices of a router that exceed the capacity of their expert (GShard, Lepikhin et al., arXiv 2006.16668, section 2.2). Within
/// each sequence by itself, the choices of an expert are counted in the order of tokens, those of one token in their own order, and the
/// first options.capacity of them are kept. weights f32 [T, K], experts i32 [T, K] → the weights of what is kept and 0 for what is dropped,
/// kept_weights f32 [T, K]; kept i32 [T, K], 1 or 0; dropped i32 [1], the number of choices that are dropped. The weights that are kept
/// stay as they are. The bits do not depend on the thread count. Throws Error(internal) if B does not divide T, for more than max_experts,
/// and for an expert outside [0, E), naming position and value; a device reports it when its work is done, and drops the choice.
void apply_capacity(const ExecutionContext& context, const Tensor& weights, const Tensor& experts, const CapacityOptions& options,
                    const Tensor& kept_weights, const Tensor& kept, const Tensor& dropped);

/// d_weights = d_kept_weights where kept is 1, else 0: f32 [T, K] from kept i32 [T, K] of the call above. The choice has no gradient.
void apply_capacity_input_gradient(const ExecutionContext& context, const Tensor& d_kept_weights, const Tensor& kept,
                                   const Tensor& d_weights);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(apply_capacity)> apply_capacity("apply_capacity");
inline constinit Kernel<decltype(apply_capacity_input_gradient)> apply_capacity_input_gradient("apply_capacity_input_gradient");
}  // namespace table

}  // namespace millrace::kernels
