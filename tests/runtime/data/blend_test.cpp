#include "runtime/data/blend.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

/// The sources of the first samples by Megatron-LM's rule, with weights that add up to 1.
std::vector<std::size_t> by_megatrons_rule(std::vector<double> weights, std::int64_t samples) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  std::vector<std::int64_t> taken(weights.size());
  std::vector<std::size_t> sources;
  for (std::int64_t i = 0; i < samples; ++i) {
    const double before = std::max(static_cast<double>(i), 1.0);
    std::size_t best = 0;
    double largest = weights[0] * before - static_cast<double>(taken[0]);
    for (std::size_t d = 1; d < weights.size(); ++d) {
      const double error = weights[d] * before - static_cast<double>(taken[d]);
      if (error <= largest) continue;
      largest = error;
      best = d;
    }
    ++taken[best];
    sources.push_back(best);
  }
  return sources;
}

std::vector<std::size_t> sources_of(const Blend& blend, std::int64_t samples) {
  std::vector<std::size_t> sources;
  for (std::int64_t i = 0; i < samples; ++i) sources.push_back(blend(i).source);
  return sources;
}

TEST(Blend, TakesSamplesInMegatronsOrder) {
  // Weights that doubles represent, so that Megatron's errors are exact where they are equal.
  for (const std::vector<double>& weights :
       {std::vector<double>{0.25, 0.75}, {0.5, 0.5}, {0.625, 0.25, 0.125}, {1, 2, 4, 8, 1}, {3, 12, 1}, {7}})
    EXPECT_EQ(sources_of(Blend(weights), 16), by_megatrons_rule(weights, 16));
  // A long period: the first difference could only come from rounding.
  const std::vector<double> weights = {0.611, 0.2883, 0.1007};
  EXPECT_EQ(sources_of(Blend(weights), 9999), by_megatrons_rule(weights, 9999));
}

TEST(Blend, GivesEverySourceItsShareInEveryPeriod) {
  struct Case {
    std::vector<double> weights;
    std::int64_t period;
    std::vector<std::int64_t> shares;
  };
  const std::vector<Case> cases = {
      {{0.3, 0.7}, 10, {3, 7}},
      {{30, 70}, 10, {3, 7}},
      {{1, 1, 1}, 3, {1, 1, 1}},
      {{3.2e9, 17.7e9}, 209, {32, 177}},  // numbers of tokens
      {{0.123456, 0.876544}, 15625, {1929, 13696}},
      {{1, std::sqrt(2.0)}, 1'000'000, {414214, 585786}},  // not a ratio of whole numbers: millionths
      {{1e-12, 1}, 1'000'000, {1, 999'999}},
      {{42}, 1, {1}},
  };
  for (const auto& [weights, period, shares] : cases) {
    const Blend blend(weights);
    for (std::size_t d = 0; d < weights.size(); ++d) {
      EXPECT_EQ(blend.count(d, period), shares[d]) << weights[d];
      EXPECT_EQ(blend.count(d, 5 * period), 5 * shares[d]) << weights[d];
      EXPECT_DOUBLE_EQ(blend.share(d), static_cast<double>(shares[d]) / static_cast<double>(period));
    }
    EXPECT_EQ(blend(period).source, blend(7 * period).source);
  }
}

TEST(Blend, FindsTheSameWithoutCountingFromTheFirstSample) {
  std::mt19937 random(3);
  for (const std::size_t sources : {2, 3, 7, 40}) {
    std::vector<double> weights;
    for (std::size_t d = 0; d < sources; ++d) weights.push_back(static_cast<double>(1 + random() % 500));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const Blend blend(weights);
    std::vector<std::int64_t> counts(sources);
    for (std::int64_t i = 0; i < 20'000; ++i) {
      const auto [source, index] = blend(i);
      ASSERT_EQ(index, counts[source]) << i;
      ++counts[source];
      for (std::size_t d = 0; d < sources; ++d) {
        ASSERT_EQ(blend.count(d, i + 1), counts[d]) << i;
        ASSERT_LT(std::fabs(static_cast<double>(counts[d]) - static_cast<double>(i + 1) * weights[d] / sum), static_cast<double>(sources));
      }
    }
  }
}

TEST(Blend, RefusesNoWeights) {
  tests::expect_error([] { Blend(std::vector<double>{}); }, ExitCode::config, {"0 sources"});
}

}  // namespace
}  // namespace millrace::runtime
