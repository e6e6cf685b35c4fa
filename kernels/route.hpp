#pragma once

#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// The score of an expert for a token, as a function φ of the token's logits: the logit itself, its share in the softmax over all experts,
/// its sigmoid, or √(log(1 + eᵘ)).
enum class RouterScore : std::uint8_t { logit, softmax, sigmoid, sqrt_softplus };

/// The use of a bias per expert: none; added to the scores when experts are chosen, and not to their weights (Wang et al., arXiv
/// 2408.15664); or part of the score.
enum class RouterBias : std::uint8_t { none, choice, score };

/// The weight of a chosen expert before it is normalised and scaled: its score, the softmax over the scores of the chosen ones, or the
/// sigmoid of its score.
enum class RouterWeight : std::uint8_t { score, softmax, sigmoid };

/// How a router chooses the experts of a token and weighs their results. The rules of all families are combinations of these.
struct RouteOptions {
  std::int64_t experts_per_token = 1;  // K
  RouterScore score = RouterScore::softmax;
  RouterBias bias = RouterBias::none;
  /// Experts are chosen from the best groups only (DeepSeek-V3, arXiv 2412.19437, section 2.1.2): E/groups neighbours form one, and its
  /// score is the sum of its `group_best` best scores.
  std::int64_t groups = 1;
  std::int64_t kept_groups = 1;
  std::int64_t group_best = 2;
  RouterWeight weight = RouterWeight::score;
  bool normalise = false;    // weights are divided by their sum
  float sum_epsilon = 0.0F;  // added to that sum
  float scale = 1.0F;        // multiplies the weights, last

  static constexpr auto members() {
    return std::tuple(member("experts_per_token", &RouteOptions::experts_per_token), member("score", &RouteOptions::score),
                      member("bias", &RouteOptions::bias), member("groups", &RouteOptions::groups),
                      member("kept_groups", &RouteOptions::kept_groups), member("group_best", &RouteOptions::group_best),
                      member("weight", &RouteOptions::weight), member("normalise", &RouteOptions::normalise),
                      member("sum_epsilon", &RouteOptions::sum_epsilon), member("scale", &RouteOptions::scale));
  }
};

/// Chooses K experts for each token: logits f32 or bf16 [T, E], bias f32 [E] or null → experts i32 [T, K], best first, and weights f32
/// [T, K]. Of equal scores the lower expert is better. Everything is computed in fp32, sums over experts in increasing order; a token's
/// result depends on its logits alone. A NaN among a token's logits appears in its weights, and its experts are valid all the same.
void route(const ExecutionContext& context, const Tensor& logits, const Tensor* bias, const RouteOptions& options, const Tensor& weights,
           const Tensor& experts);

/// d_logits [T, E] in the logits' dtype, from d_weights f32 [T, K] and the chosen experts. The choice itself has no gradient, nor has a
/// bias that serves the choice alone.
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
