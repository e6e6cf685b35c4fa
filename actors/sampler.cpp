#include "actors/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/base/check.hpp"
#include "kernels/base/mix.hpp"

namespace millrace::actors {
namespace {

/// Sets the weights of all tokens excluded by top-k or top-p to zero. The most probable token always stays.
void leave_out(std::vector<double>& weights, std::int64_t top_k, double top_p) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto most_probable = [&](std::size_t a, std::size_t b) { return weights[a] != weights[b] ? weights[a] > weights[b] : a < b; };
  std::size_t kept = order.size();
  if (top_k > 0) kept = std::min(kept, static_cast<std::size_t>(top_k));
  // Top-p needs the tokens kept by top-k in order; top-k alone needs no order.
  if (kept < order.size())
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept) - 1, order.end(), most_probable);
  if (top_p < 1) {
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), most_probable);
    double total = 0, sum = 0;
    for (std::size_t i = 0; i < kept; ++i) total += weights[order[i]];
    std::size_t enough = 0;
    while (enough < kept && (enough == 0 || sum < top_p * total)) sum += weights[order[enough++]];
    kept = enough;
  }
  for (std::size_t i = kept; i < order.size(); ++i) weights[order[i]] = 0;
}

}  // namespace

std::int32_t sample_token(const std::vector<float>& logits, const Sampling& sampling, std::uint64_t index) {
  MILLRACE_CHECK(!logits.empty(), ExitCode::internal, "actors.sampler", "no logits");
  const auto nan = std::find_if(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
  const auto best = nan != logits.end() ? nan : std::max_element(logits.begin(), logits.end());
  MILLRACE_CHECK(std::isfinite(*best), ExitCode::numerics, "actors.sampler", "the logit of token {} is {}, expected a finite number",
                 best - logits.begin(), *best);
  const auto most_probable = static_cast<std::int32_t>(best - logits.begin());
  if (sampling.temperature <= 0) return most_probable;
  std::vector<double> weights(logits.size());
  std::transform(logits.begin(), logits.end(), weights.begin(),
                 [&](float logit) { return std::exp((logit - *best) / sampling.temperature); });
  if (sampling.top_k > 0 || sampling.top_p < 1) leave_out(weights, sampling.top_k, sampling.top_p);
  double left = static_cast<double>(splitmix(splitmix(sampling.seed) + index) >> 11) * 0x1.0p-53 *
                std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t token = 0; token < weights.size(); ++token) {
    left -= weights[token];
    if (left < 0) return static_cast<std::int32_t>(token);
  }
  return most_probable;
}

std::int32_t sample_token(const std::vector<float>& logits, double temperature, std::uint64_t seed, std::uint64_t index) {
  return sample_token(logits, Sampling{temperature, 0, 1, seed}, index);
}

}  // namespace millrace::actors
