#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/base/route_options.hpp"
#include "tests/support/rounding.hpp"

/// The formulas of kernels/route.hpp for one token in double, each number with a bound of the error that fp32 makes of it.
namespace millrace::kernels::testing {

struct Number {
  double value = 0, error = 0;
};
using Numbers = std::vector<Number>;

/// The result of one fp32 operation whose operands' errors make `error`: it is rounded, or denormal.
inline Number rounded(double value, double error) {
  return {value, error + tests::fp32_roundoff * (std::abs(value) + error) + std::numeric_limits<float>::denorm_min()};
}
inline Number operator+(Number a, Number b) { return rounded(a.value + b.value, a.error + b.error); }
inline Number operator-(Number a, Number b) { return rounded(a.value - b.value, a.error + b.error); }
inline Number operator-(Number a) { return {-a.value, a.error}; }
inline Number operator*(Number a, Number b) {
  return rounded(a.value * b.value, std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error);
}
inline Number operator/(Number a, Number b) {
  const double quotient = a.value / b.value;
  return rounded(quotient, (a.error + std::abs(quotient) * b.error) / (std::abs(b.value) - b.error));
}
/// Every backend's exponential is within two units in the last place, which are four roundoffs.
inline Number exponential(Number x) {
  const double value = std::exp(x.value);
  return {value, value * (std::expm1(x.error) + 4 * tests::fp32_roundoff) + std::numeric_limits<float>::denorm_min()};
}
inline Number exact(double value) { return {value, 0}; }
inline Number logistic(Number x) { return exact(1) / (exact(1) + exponential(-x)); }

inline Number sum_of(const Numbers& x) {
  Number sum;
  for (const Number each : x) sum = sum + each;
  return sum;
}
inline Number product_of(const Numbers& x, const Numbers& y) {
  Number sum;
  for (std::size_t i = 0; i < x.size(); ++i) sum = sum + x[i] * y[i];
  return sum;
}
inline Numbers softmax(Numbers x) {
  const Number top = *std::max_element(x.begin(), x.end(), [](Number a, Number b) { return a.value < b.value; });
  for (Number& each : x) each = exponential(each - top);
  const Number sum = sum_of(x);
  for (Number& each : x) each = each / sum;
  return x;
}

class RouteToken {
 public:
  /// `bias`: empty if the options have none.
  RouteToken(const std::vector<double>& logits, std::vector<double> bias, const RouteOptions& options)
      : bias_(std::move(bias)), options_(options) {
    for (const double u : logits) logits_.push_back(exact(u));
    p_ = options.score == RouterScore::softmax ? softmax(logits_) : logits_;
    for (Number& p : p_) {
      if (options.score == RouterScore::sigmoid) p = logistic(p);
      // The exponential's two units and the logarithm's four count half under the root.
      if (options.score == RouterScore::sqrt_softplus) {
        const double root = std::sqrt(std::log1p(std::exp(p.value)));
        p = {root, 10 * tests::fp32_roundoff * root};
      }
    }
    a_ = p_;
    for (std::size_t e = 0; e < bias_.size(); ++e) a_[e] = a_[e] + exact(bias_[e]);
  }

  /// The experts, best first. Expects that no fp32 result could choose others: scores that are not alike differ by more than their errors.
  [[nodiscard]] std::vector<std::size_t> choose() const {
    const auto groups = static_cast<std::size_t>(options_.groups), each = a_.size() / groups;
    std::vector<std::size_t> kept{0};
    if (groups > 1) {
      Numbers sums(groups);
      for (std::size_t group = 0; group < groups; ++group)
        for (const std::size_t e : best_of(a_, range(group * each, each), options_.group_best)) sums[group] = sums[group] + a_[e];
      kept = best_of(sums, range(0, groups), options_.kept_groups);
    }
    std::vector<std::size_t> open;
    for (std::size_t e = 0; e < a_.size(); ++e)
      if (std::find(kept.begin(), kept.end(), e / each) != kept.end()) open.push_back(e);
    return best_of(a_, open, options_.experts_per_token);
  }

  [[nodiscard]] Numbers weights(const std::vector<std::size_t>& experts) const {
    Numbers w = transformed(experts);
    if (const Number sum = sum_of(w) + exact(options_.sum_epsilon); divides(sum))
      for (Number& each : w) each = each / sum;
    for (Number& each : w) each = each * exact(options_.scale);
    return w;
  }

  struct Gradients {
    Numbers logits;  // of all experts
    Numbers scores;  // that arrive at the scores of the chosen experts
  };
  [[nodiscard]] Gradients gradients(const std::vector<std::size_t>& experts, const std::vector<double>& d_weights) const {
    const Numbers v = transformed(experts);
    Numbers g;
    for (const double dw : d_weights) g.push_back(exact(dw) * exact(options_.scale));
    if (const Number sum = sum_of(v) + exact(options_.sum_epsilon); divides(sum)) {
      Numbers w;
      for (const Number each : v) w.push_back(each / sum);
      const Number along = product_of(g, w);
      for (Number& each : g) each = (each - along) / sum;
    }
    const Number along_weights = product_of(g, v);
    for (std::size_t k = 0; k < g.size(); ++k) {
      if (options_.weight == RouterWeight::softmax) g[k] = v[k] * (g[k] - along_weights);
      if (options_.weight == RouterWeight::sigmoid) g[k] = g[k] * v[k] * logistic(-score(experts[k]));
    }
    return {to_logits(experts, g), g};
  }

 private:
  [[nodiscard]] bool divides(Number sum) const { return options_.normalise && std::abs(sum.value) >= static_cast<double>(min_weight_sum); }
  static std::vector<std::size_t> range(std::size_t begin, std::size_t count) {
    std::vector<std::size_t> all;
    for (std::size_t i = begin; i < begin + count; ++i) all.push_back(i);
    return all;
  }
  static std::vector<std::size_t> best_of(const Numbers& a, std::vector<std::size_t> open, std::int64_t count) {
    std::vector<std::size_t> best;
    for (std::int64_t k = 0; k < count; ++k) {
      const auto first = std::max_element(open.begin(), open.end(), [&](std::size_t i, std::size_t j) { return a[i].value < a[j].value; });
      const Number top = a[*first];
      for (const std::size_t other : open)
        EXPECT_TRUE(a[other].value == top.value || top.value - a[other].value > top.error + a[other].error) << *first << " or " << other;
      best.push_back(*first);
      open.erase(first);
    }
    return best;
  }
  [[nodiscard]] Number score(std::size_t e) const { return options_.bias == RouterBias::score ? a_[e] : p_[e]; }
  [[nodiscard]] Numbers transformed(const std::vector<std::size_t>& experts) const {
    Numbers v;
    for (const std::size_t e : experts) v.push_back(options_.weight == RouterWeight::sigmoid ? logistic(score(e)) : score(e));
    return options_.weight == RouterWeight::softmax ? softmax(v) : v;
  }
  [[nodiscard]] Numbers to_logits(const std::vector<std::size_t>& experts, const Numbers& dp) const {
    Numbers du(p_.size());
    Number along;
    for (std::size_t k = 0; k < experts.size(); ++k) {
      const std::size_t e = experts[k];
      along = along + dp[k] * p_[e];
      du[e] = dp[k];
      if (options_.score == RouterScore::sigmoid) du[e] = du[e] * (p_[e] * logistic(-logits_[e]));
      if (options_.score == RouterScore::sqrt_softplus) du[e] = du[e] * (logistic(logits_[e]) / (exact(2) * p_[e]));
    }
    if (options_.score == RouterScore::softmax)
      for (std::size_t e = 0; e < du.size(); ++e) du[e] = p_[e] * (du[e] - along);
    return du;
  }

  Numbers logits_, p_, a_;
  std::vector<double> bias_;
  RouteOptions options_;
};

}  // namespace millrace::kernels::testing
