#include "actors/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "kernels/base/mix.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::actors {
namespace {

/// Logits without a pattern, some of them equal.
std::vector<float> some_logits(std::size_t count, std::uint64_t seed) {
  std::vector<float> logits;
  for (std::size_t i = 0; i < count; ++i) logits.push_back(static_cast<float>(splitmix(seed + i) % 41) * 0.25F - 5.0F);
  return logits;
}

/// The candidates with their probabilities, computed in the simplest way: sort, cut, divide.
std::map<std::int32_t, double> plain(const std::vector<float>& logits, const Sampling& sampling) {
  std::vector<std::pair<double, std::int32_t>> all;  // negated logit, so that the most probable sorts first, then the lower id
  for (std::size_t i = 0; i < logits.size(); ++i) all.emplace_back(-static_cast<double>(logits[i]), static_cast<std::int32_t>(i));
  std::sort(all.begin(), all.end());
  if (sampling.top_k > 0 && static_cast<std::size_t>(sampling.top_k) < all.size()) all.resize(static_cast<std::size_t>(sampling.top_k));
  const auto share = [&] {
    std::vector<double> shares;
    double total = 0;
    for (const auto& [minus, id] : all) shares.push_back(std::exp((-minus + all.front().first) / sampling.temperature));
    for (const double each : shares) total += each;
    for (double& each : shares) each /= total;
    return shares;
  };
  const auto before = share();
  std::size_t kept = 0;
  for (double sum = 0; kept < all.size() && (kept == 0 || sum < sampling.top_p); ++kept) sum += before[kept];
  if (sampling.top_p < 1) all.resize(kept);
  const auto after = share();
  std::map<std::int32_t, double> result;
  for (std::size_t i = 0; i < all.size(); ++i) result[all[i].second] = after[i];
  return result;
}

TEST(Sampler, DrawsWithThePlainProbabilities) {
  constexpr int draws = 20000;
  for (const Sampling& sampling : {Sampling{1.0, 0, 1.0, 3}, Sampling{0.7, 5, 1.0, 4}, Sampling{1.5, 0, 0.6, 5}, Sampling{2.0, 9, 0.8, 6},
                                   Sampling{0.3, 1, 1.0, 7}, Sampling{1.0, 0, 0.001, 8}, Sampling{1.0, 1000, 0.999, 9}}) {
    const auto logits = some_logits(37, sampling.seed);
    const auto wanted = plain(logits, sampling);
    std::map<std::int32_t, int> counts;
    for (int index = 0; index < draws; ++index) ++counts[sample_token(logits, sampling, static_cast<std::uint64_t>(index))];
    for (const auto& [id, count] : counts) EXPECT_TRUE(wanted.contains(id)) << id << " of seed " << sampling.seed;
    for (const auto& [id, probability] : wanted) {
      const double deviation = std::sqrt(probability * (1 - probability) / draws);
      EXPECT_NEAR(counts[id] / static_cast<double>(draws), probability, 5 * deviation + 1e-9) << id << " of seed " << sampling.seed;
    }
  }
}

TEST(Sampler, TakesTheFirstOfTheMostProbableAtTemperatureZero) {
  EXPECT_EQ(sample_token({0.5F, 2.0F, -1.0F, 2.0F}, Sampling{0, 0, 1, 1}, 0), 1);
  EXPECT_EQ(sample_token({0.5F, 2.0F, -1.0F, 2.0F}, Sampling{1.0, 1, 1, 1}, 17), 1);
}

TEST(Sampler, RefusesLogitsThatAreNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 0.8}) {
    const auto sample = [&](std::vector<float> logits) { return [=] { (void)sample_token(logits, Sampling{temperature, 0, 1, 1}, 0); }; };
    tests::expect_error(sample({1.0F, nan, 2.0F}), ExitCode::numerics, {"the logit of token 1 is nan"});
    tests::expect_error(sample({1.0F, 2.0F, infinity}), ExitCode::numerics, {"the logit of token 2 is inf"});
    tests::expect_error(sample({-infinity, -infinity}), ExitCode::numerics, {"the logit of token 0 is -inf"});
    EXPECT_EQ(sample_token({-infinity, 2.0F}, Sampling{temperature, 0, 1, 1}, 0), 1) << "a token that cannot come is none that is wrong";
  }
}

// Without top-k and top-p a sample walks through all weights in the order of ids, as the samples of `train` always have.
TEST(Sampler, KeepsTheSamplesOfItsFirstForm) {
  const auto logits = some_logits(37, 11);
  for (std::uint64_t index = 0; index < 200; ++index) {
    double total = 0;
    const float best = *std::max_element(logits.begin(), logits.end());
    for (const float logit : logits) total += std::exp((logit - best) / 0.8);
    double left = static_cast<double>(splitmix(splitmix(42) + index) >> 11) * 0x1.0p-53 * total;
    std::int32_t wanted = 0;
    for (; wanted < 36; ++wanted)
      if ((left -= std::exp((logits[static_cast<std::size_t>(wanted)] - best) / 0.8)) < 0) break;
    EXPECT_EQ(sample_token(logits, 0.8, 42, index), wanted);
    EXPECT_EQ(sample_token(logits, Sampling{0.8, 37, 1.0, 42}, index), wanted);
  }
}

}  // namespace
}  // namespace millrace::actors
