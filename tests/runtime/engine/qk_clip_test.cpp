#include "runtime/engine/qk_clip.hpp"

#include <gtest/gtest.h>

#include "runtime/program/observation.hpp"

namespace millrace::runtime {
namespace {

ObservedSums scores(int stage, const char* scope, std::vector<double> values) {
  return {stage, 0, std::string(score_maxima_name), scope, 2, std::move(values)};
}

// By microbatch, in whatever stages and replicas: the largest counts, also among numbers below 0.
TEST(QkClip, TakesTheLargestScoreOfTheStep) {
  const std::vector<ObservedSums> reported{scores(1, "layers.1", {-3, 8, -2, 7}), scores(0, "layers.0", {1, 2, 5, 1}),
                                           scores(2, "layers.0", {4, 9}), scores(3, "layers.1", {-9, 1})};
  const auto observations = add_observations(reported, 2);
  const QkClip clip = qk_clip(5, observations);
  ASSERT_EQ(clip.attentions.size(), 2U);
  EXPECT_EQ(clip.attentions[0].scope, "layers.0");
  EXPECT_EQ(clip.attentions[0].maxima, (std::vector<double>{5, 9}));
  EXPECT_EQ(clip.attentions[1].maxima, (std::vector<double>{-2, 8}));
  EXPECT_EQ(largest_score(observations), 9.0);
  EXPECT_TRUE(qk_clip(0, observations).attentions.empty());
  EXPECT_FALSE(largest_score({}).has_value());
}

TEST(QkClip, ScalesOnlyWhatExceedsTheThreshold) {
  const auto factors = clip_factors(5, {"layers.0", {4, 5, 10, 20, -7, 0}});
  ASSERT_EQ(factors.size(), 6U);
  EXPECT_EQ(factors[0], 1.0F);
  EXPECT_NEAR(static_cast<double>(factors[1]), 1.0, 1e-6) << "5 / (5 + 1e-6)";
  EXPECT_NEAR(static_cast<double>(factors[2]), 0.5, 1e-6);
  EXPECT_NEAR(static_cast<double>(factors[3]), 0.25, 1e-6);
  EXPECT_EQ(factors[4], 1.0F) << "a head whose scores are all below 0";
  EXPECT_EQ(factors[5], 1.0F);
}

}  // namespace
}  // namespace millrace::runtime
