#include "actors/sampler.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"

namespace millrace::actors {
namespace {

/// splitmix64's finaliser (Steele, Lea, Flood 2014): a well-mixed function of its argument.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::int32_t sample_token(const std::vector<float>& logits, double temperature, std::uint64_t seed, std::uint64_t index) {
  MILLRACE_CHECK(!logits.empty(), ExitCode::internal, "actors.sampler", "no logits");
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return static_cast<std::int32_t>(best - logits.begin());
  double total = 0;
  for (const float logit : logits) total += std::exp((logit - *best) / temperature);
  double left = static_cast<double>(mix(mix(seed) + index) >> 11) * 0x1.0p-53 * total;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    left -= std::exp((logits[token] - *best) / temperature);
    if (left < 0) return static_cast<std::int32_t>(token);
  }
  return static_cast<std::int32_t>(best - logits.begin());
}

}  // namespace millrace::actors
