#pragma once

#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/route_options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// Throws Error(config) naming what was found and expected, unless a router of these options can choose among `experts` experts: from 1
/// to max_experts of them in equal groups, 1 <= kept_groups <= groups, 1 <= K <= the experts of the kept groups and, with groups,
/// 1 <= group_best <= the experts of one.
void check_route_options(const char* component, std::int64_t experts, const RouteOptions& options);

/// Chooses K experts for each token: logits f32 or bf16 [T, E], bias f32 [E], or null if options.bias is none → experts i32 [T, K], best
/// first, and weights f32 [T, K]. Among equal scores, and among equal groups, the lower index is better. Everything is computed in fp32;
/// sums over all experts are taken in increasing order, those over the chosen ones and over the best of a group best first. A token's
/// result depends on its logits alone. A NaN counts as the best score, so that it appears in the token's weights; the experts are valid all
/// the same. With options.given `experts` is read and not written; one outside [0, E) is an Error(internal) that names position and value,
/// which a device reports when its work is done. If options.normalise, and the sum of a token's weights with the epsilon is below
/// min_weight_sum in size, they are not divided by it: weights that all underflow stay next to 0, and neither they nor their gradients
/// become NaN or infinite. Throws Error(config) as check_route_options, Error(internal) for operands of other
/// types.
void route(const ExecutionContext& context, const Tensor& logits, const Tensor* bias, const RouteOptions& options, const Tensor& weights,
           const Tensor& experts);

/// d_logits [T, E] in the logits' dtype, from d_weights f32 [T, K] and the experts that `route` chose for these logits. Computed in fp32
/// and rounded once; sums as above. The choice itself has no gradient, nor has a bias that serves the choice alone.
void route_input_gradient(const ExecutionContext& context, const Tensor& d_weights, const Tensor& logits, const Tensor* bias,
                          const Tensor& experts, const RouteOptions& options, const Tensor& d_logits);

/// d_bias f32 [E] += the scores' gradients, token after token, for a bias that is part of the score.
void route_bias_gradient(const ExecutionContext& context, const Tensor& d_weights, const Tensor& logits, const Tensor& bias,
                         const Tensor& experts, const RouteOptions& options, const Tensor& d_bias);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(route)> route("route");
inline constinit Kernel<decltype(route_input_gradient)> route_input_gradient("route_input_gradient");
inline constinit Kernel<decltype(route_bias_gradient)> route_bias_gradient("route_bias_gradient");
}  // namespace table

}  // namespace millrace::kernels
