#include "kernels/route.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

using Numbers = std::vector<float>;

float logistic(float x) { return 1.0F / (1.0F + std::exp(-x)); }

/// In place; the sum in the order of the numbers.
void softmax(Numbers& x) {
  const float top = *std::max_element(x.begin(), x.end());
  float sum = 0;
  for (float& each : x) sum += each = std::exp(each - top);
  for (float& each : x) each /= sum;
}

/// Below −20 the square root of log(1 + eᵘ) is that of eᵘ in fp32; there the quotient of its slope would be 0/0 in the end.
float sqrt_softplus(float u) { return u < -20.0F ? std::exp(0.5F * u) : std::sqrt(u > 20.0F ? u : std::log1p(std::exp(u))); }

/// p of all experts.
Numbers scores_of(const Tensor& logits, std::int64_t token, RouterScore score) {
  Numbers p(static_cast<std::size_t>(logits.shape[1]));
  for (std::size_t e = 0; e < p.size(); ++e) p[e] = load(logits, token * logits.shape[1] + static_cast<std::int64_t>(e));
  if (score == RouterScore::softmax) softmax(p);
  for (float& each : p) {
    if (score == RouterScore::sigmoid) each = logistic(each);
    if (score == RouterScore::sqrt_softplus) each = sqrt_softplus(each);
  }
  return p;
}

Numbers biased(Numbers p, const Tensor* bias) {
  if (bias != nullptr)
    for (std::size_t e = 0; e < p.size(); ++e) p[e] += bias->as<float>()[e];
  return p;
}

/// The `count` best of some candidates, best first: a NaN before all numbers, of equals the lower one.
std::vector<std::size_t> best_of(const Numbers& a, std::vector<std::size_t> candidates, std::int64_t count) {
  std::stable_sort(candidates.begin(), candidates.end(), [&](std::size_t i, std::size_t j) {
    const bool first = std::isnan(a[i]), second = std::isnan(a[j]);
    return first || second ? first && !second : a[i] > a[j];
  });
  candidates.resize(static_cast<std::size_t>(count));
  return candidates;
}

std::vector<std::size_t> numbered(std::size_t begin, std::size_t end) {
  std::vector<std::size_t> all(end - begin);
  std::iota(all.begin(), all.end(), begin);
  return all;
}

/// The experts of the groups that are kept.
std::vector<std::size_t> open_experts(const Numbers& a, const RouteOptions& options) {
  if (options.groups == 1) return numbered(0, a.size());
  const auto groups = static_cast<std::size_t>(options.groups), each = a.size() / groups;
  Numbers sums(groups);
  for (std::size_t group = 0; group < groups; ++group)
    for (const std::size_t e : best_of(a, numbered(group * each, (group + 1) * each), options.group_best)) sums[group] += a[e];
  auto kept = best_of(sums, numbered(0, groups), options.kept_groups);
  std::sort(kept.begin(), kept.end());
  std::vector<std::size_t> open;
  for (const std::size_t group : kept)
    for (std::size_t e = group * each; e < (group + 1) * each; ++e) open.push_back(e);
  return open;
}

/// The weights of the chosen scores s before they are normalised.
Numbers transformed(Numbers s, RouterWeight weight) {
  if (weight == RouterWeight::softmax) softmax(s);
  if (weight == RouterWeight::sigmoid)
    for (float& each : s) each = logistic(each);
  return s;
}

float sum_of(const Numbers& x) { return std::accumulate(x.begin(), x.end(), 0.0F); }
float product_of(const Numbers& x, const Numbers& y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0F); }

void route(const Tensor& logits, const Tensor* bias, const RouteOptions& options, const Tensor& weights, const Tensor& experts) {
  const std::int64_t chosen = options.experts_per_token;
  for (std::int64_t token = 0; token < logits.shape[0]; ++token) {
    const Numbers p = scores_of(logits, token, options.score), a = biased(p, bias);
    std::vector<std::size_t> best;
    if (options.given)
      for (std::int64_t at = token * chosen; at < (token + 1) * chosen; ++at)
        best.push_back(static_cast<std::size_t>(experts.as<std::int32_t>()[at]));
    else
      best = best_of(a, open_experts(a, options), chosen);
    Numbers w;
    for (const std::size_t e : best) w.push_back(options.bias == RouterBias::score ? a[e] : p[e]);
    w = transformed(w, options.weight);
    const float sum = sum_of(w) + options.sum_epsilon, divisor = divides_by(sum, options) ? sum : 1.0F;
    for (std::size_t k = 0; k < w.size(); ++k) {
      const auto at = token * chosen + static_cast<std::int64_t>(k);
      experts.as<std::int32_t>()[at] = static_cast<std::int32_t>(best[k]);
      weights.as<float>()[at] = w[k] / divisor * options.scale;
    }
  }
}

/// What the gradients of a token have in common: p of all experts, and the gradients that arrive at the scores of the chosen.
struct TokenGradient {
  std::vector<std::size_t> experts;
  Numbers p, ds;

  TokenGradient(const Tensor& d_weights, const Tensor& logits, const Tensor* bias, const Tensor& chosen, const RouteOptions& options,
                std::int64_t token)
      : p(scores_of(logits, token, options.score)) {
    Numbers s, g;
    for (std::int64_t at = token * options.experts_per_token; at < (token + 1) * options.experts_per_token; ++at) {
      experts.push_back(static_cast<std::size_t>(chosen.as<std::int32_t>()[at]));
      s.push_back(p[experts.back()] + (options.bias == RouterBias::score ? bias->as<float>()[experts.back()] : 0.0F));
      g.push_back(d_weights.as<float>()[at] * options.scale);
    }
    const Numbers v = transformed(s, options.weight);
    if (const float sum = sum_of(v) + options.sum_epsilon; divides_by(sum, options)) {
      Numbers w;
      for (const float each : v) w.push_back(each / sum);
      const float along = product_of(g, w);
      for (float& each : g) each = (each - along) / sum;
    }
    const float along = product_of(g, v);
    for (std::size_t k = 0; k < g.size(); ++k) {
      if (options.weight == RouterWeight::softmax) g[k] = v[k] * (g[k] - along);
      if (options.weight == RouterWeight::sigmoid) g[k] *= v[k] * logistic(-s[k]);
    }
    ds = g;
  }
};

void route_input_gradient(const Tensor& d_weights, const Tensor& logits, const Tensor* bias, const Tensor& experts,
                          const RouteOptions& options, const Tensor& d_logits) {
  const std::int64_t count = logits.shape[1];
  for (std::int64_t token = 0; token < logits.shape[0]; ++token) {
    const TokenGradient at(d_weights, logits, bias, experts, options, token);
    Numbers du(at.p.size());
    float along = 0;  // <dp, p>
    for (std::size_t k = 0; k < at.ds.size(); ++k) {
      const std::size_t e = at.experts[k];
      const float u = load(logits, token * count + static_cast<std::int64_t>(e)), p = at.p[e];
      du[e] = at.ds[k];
      along += at.ds[k] * p;
      if (options.score == RouterScore::sigmoid) du[e] *= p * logistic(-u);
      if (options.score == RouterScore::sqrt_softplus) du[e] *= u < -20.0F ? 0.5F * p : logistic(u) / (2.0F * p);
    }
    for (std::size_t e = 0; e < du.size(); ++e)
      store(d_logits, token * count + static_cast<std::int64_t>(e),
            options.score == RouterScore::softmax ? at.p[e] * (du[e] - along) : du[e]);
  }
}

void route_bias_gradient(const Tensor& d_weights, const Tensor& logits, const Tensor& bias, const Tensor& experts,
                         const RouteOptions& options, const Tensor& d_bias) {
  for (std::int64_t token = 0; token < logits.shape[0]; ++token) {
    const TokenGradient at(d_weights, logits, &bias, experts, options, token);
    for (std::size_t k = 0; k < at.ds.size(); ++k) d_bias.as<float>()[at.experts[k]] += at.ds[k];
  }
}

const InTable route_in_table[] = {
    {Backend::reference, table::route, without_context<route>},
    {Backend::reference, table::route_input_gradient, without_context<route_input_gradient>},
    {Backend::reference, table::route_bias_gradient, without_context<route_bias_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
