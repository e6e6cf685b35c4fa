#include "runtime/data/blend.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

constexpr std::int64_t longest_period = 1'000'000;
constexpr std::int64_t block = 256;  // samples between two entries of before_

/// The weights as whole numbers without a common divisor; empty if their sum is more than the longest period.
std::vector<std::int64_t> exact_shares(std::span<const double> weights) {
  constexpr double largest = 1e15;  // integers beyond are not all doubles
  double scale = 1;
  for (int digits = 0; digits <= 6; ++digits, scale *= 10) {
    std::vector<std::int64_t> shares;
    for (const double weight : weights) {
      const double scaled = weight * scale, whole = std::round(scaled);
      if (whole < 1 || whole > largest || std::fabs(scaled - whole) > 1e-9 * whole) break;
      shares.push_back(static_cast<std::int64_t>(whole));
    }
    if (shares.size() < weights.size()) continue;
    std::int64_t divisor = 0;
    double sum = 0;
    for (const std::int64_t share : shares) divisor = std::gcd(divisor, share);
    for (std::int64_t& share : shares) sum += static_cast<double>(share /= divisor);
    if (sum <= static_cast<double>(longest_period)) return shares;
  }
  return {};
}

/// Millionths of the sum, rounded so that they add up to a million: those with the largest remainders are rounded up.
std::vector<std::int64_t> rounded_shares(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> shares;
  std::vector<double> remainders;
  for (const double weight : weights) {
    const double exact = weight / sum * static_cast<double>(longest_period);
    shares.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(exact))));
    remainders.push_back(exact - static_cast<double>(shares.back()));
  }
  std::int64_t missing = longest_period - std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  for (; missing > 0; --missing) {
    const auto most = std::ranges::max_element(remainders) - remainders.begin();
    ++shares[static_cast<std::size_t>(most)];
    remainders[static_cast<std::size_t>(most)] -= 1;
  }
  for (; missing < 0; ++missing) --*std::ranges::max_element(shares);  // sources with less than a millionth were given one
  return shares;
}

}  // namespace

Blend::Blend(std::span<const double> weights) {
  constexpr std::size_t most = std::numeric_limits<std::uint16_t>::max();
  MILLRACE_CHECK(!weights.empty() && weights.size() <= most, ExitCode::config, "data", "{} sources of data, expected 1 to {}",
                 weights.size(), most);
  shares_ = exact_shares(weights);
  if (shares_.empty()) shares_ = rounded_shares(weights);
  period_ = std::accumulate(shares_.begin(), shares_.end(), std::int64_t{0});

  // The error of source d before sample i is share_d · i − count_d, here times the period, so that all numbers are whole. Megatron takes
  // i = 1 for the first sample, which then comes from the source with the largest share; so the first period differs from the others. A
  // source that is taken had an error of 0 or more, so that no error ever falls below −1; at the end of a period errors are whole, above −1
  // and add up to 0: all of them are 0.
  std::vector<std::int64_t> counts(shares_.size());
  sources_.reserve(static_cast<std::size_t>(2 * period_));
  for (std::int64_t i = 0; i < 2 * period_; ++i) {
    if (i % block == 0) before_.insert(before_.end(), counts.begin(), counts.end());
    std::size_t furthest = 0;
    std::int64_t largest = std::numeric_limits<std::int64_t>::min();
    for (std::size_t d = 0; d < shares_.size(); ++d) {
      const std::int64_t error = shares_[d] * std::max<std::int64_t>(i, 1) - counts[d] * period_;
      if (error <= largest) continue;
      largest = error;
      furthest = d;
    }
    ++counts[furthest];
    sources_.push_back(static_cast<std::uint16_t>(furthest));
  }
}

std::int64_t Blend::count(std::size_t source, std::int64_t samples) const noexcept {
  const std::int64_t end = within(samples), first = end / block;
  return (samples - end) / period_ * shares_[source] + before_[static_cast<std::size_t>(first) * shares_.size() + source] +
         std::count(sources_.begin() + first * block, sources_.begin() + end, static_cast<std::uint16_t>(source));
}

Blend::Place Blend::operator()(std::int64_t sample) const noexcept {
  const std::size_t source = sources_[static_cast<std::size_t>(within(sample))];
  return {source, count(source, sample)};
}

}  // namespace millrace::runtime
