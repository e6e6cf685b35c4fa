#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/base/options.hpp"

namespace millrace::kernels {

/// The largest number of experts among which a token can choose: a kernel keeps the scores of a token at hand, without scratch.
inline constexpr std::int64_t max_experts = 4096;

/// Weights are normalised if their sum is at least this, which is DeepSeek-V3's epsilon. A quotient by a smaller sum is 0/0 or not in
/// fp32's range once sigmoids of very negative logits underflow.
inline constexpr float min_weight_sum = 1e-20F;

/// The score of an expert for a token, as a function φ of the token's logits: the logit itself, its share in the softmax over all experts,
/// its sigmoid, or √(log(1 + eᵘ)).
enum class RouterScore : std::uint8_t { logit, softmax, sigmoid, sqrt_softplus };
[[nodiscard]] constexpr const char* to_string(RouterScore score) noexcept {
  constexpr std::array names = {"logit", "softmax", "sigmoid", "sqrt_softplus"};
  return names[static_cast<std::size_t>(score)];
}

/// The use of a bias per expert: none; added to the scores when experts are chosen, and not to their weights (Wang et al., arXiv
/// 2408.15664); or part of the score.
enum class RouterBias : std::uint8_t { none, choice, score };
[[nodiscard]] constexpr const char* to_string(RouterBias bias) noexcept {
  constexpr std::array names = {"none", "choice", "score"};
  return names[static_cast<std::size_t>(bias)];
}

/// The weight of a chosen expert before it is normalised and scaled: its score, the softmax over the scores of the chosen ones, or the
/// sigmoid of its score.
enum class RouterWeight : std::uint8_t { score, softmax, sigmoid };
[[nodiscard]] constexpr const char* to_string(RouterWeight weight) noexcept {
  constexpr std::array names = {"score", "softmax", "sigmoid"};
  return names[static_cast<std::size_t>(weight)];
}

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
  bool normalise = false;    // weights are divided by their sum, unless it is below min_weight_sum in size
  float sum_epsilon = 0.0F;  // added to that sum
  float scale = 1.0F;        // multiplies the weights, last
  bool given = false;        // the experts are given, not chosen: only their weights are computed

  bool operator==(const RouteOptions&) const = default;

  static constexpr auto members() {
    return std::tuple(member("experts_per_token", &RouteOptions::experts_per_token), member("score", &RouteOptions::score),
                      member("bias", &RouteOptions::bias), member("groups", &RouteOptions::groups),
                      member("kept_groups", &RouteOptions::kept_groups), member("group_best", &RouteOptions::group_best),
                      member("weight", &RouteOptions::weight), member("normalise", &RouteOptions::normalise),
                      member("sum_epsilon", &RouteOptions::sum_epsilon), member("scale", &RouteOptions::scale),
                      member("given", &RouteOptions::given));
  }
};

/// Whether a token's weights are divided by `sum`, which includes the epsilon. static: sources of every instruction set include it.
static constexpr bool divides_by(float sum, const RouteOptions& options) noexcept {
  return options.normalise && !(sum > -min_weight_sum && sum < min_weight_sum);  // a NaN divides
}

}  // namespace millrace::kernels
