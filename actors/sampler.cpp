#include "actors/sampler.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"
#include "kernels/base/mix.hpp"

namespace millrace::actors {
std::int32_t sample_token(const std::vector<float>& logits, double temperature, std::uint64_t seed, std::uint64_t index) {
  MILLRACE_CHECK(!logits.empty(), ExitCode::internal, "actors.sampler", "no logits");
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return static_cast<std::int32_t>(best - logits.begin());
  double total = 0;
  for (const float logit : logits) total += std::exp((logit - *best) / temperature);
  double left = static_cast<double>(splitmix(splitmix(seed) + index) >> 11) * 0x1.0p-53 * total;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    left -= std::exp((logits[token] - *best) / temperature);
    if (left < 0) return static_cast<std::int32_t>(token);
  }
  return static_cast<std::int32_t>(best - logits.begin());
}

}  // namespace millrace::actors
