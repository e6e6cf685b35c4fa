#include "layers/optimizers/learning_rate.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "layers/optimizers/decay.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::layers {
namespace {

TEST(LearningRate, WarmsUpFromTheFirstStep) {
  for (const char* rule : {"constant", "cosine", "linear", "wsd"}) {
    const LearningRate rate{rule, 1.0, 0.1, 100, 4, 10};
    EXPECT_DOUBLE_EQ(rate.at(0), 0.25);
    EXPECT_DOUBLE_EQ(rate.at(2), 0.75);
    EXPECT_DOUBLE_EQ(rate.at(3), 1.0);
    EXPECT_DOUBLE_EQ(rate.at(4), 1.0) << rule;
  }
}

TEST(LearningRate, FollowsItsRule) {
  const LearningRate cosine{"cosine", 1.0, 0.1, 12, 2, 0};
  EXPECT_NEAR(cosine.at(7), 0.55, 1e-15);
  EXPECT_NEAR(cosine.at(12), 0.1, 1e-15);
  EXPECT_NEAR(cosine.at(11), 0.1 + 0.9 * (1 + std::cos(0.9 * M_PI)) / 2, 1e-15);
  const LearningRate linear{"linear", 1.0, 0.1, 12, 2, 0};
  EXPECT_NEAR(linear.at(7), 0.55, 1e-15);
  EXPECT_NEAR(linear.at(11), 1.0 - 0.9 * 0.9, 1e-15);
  const LearningRate constant{"constant", 1.0, 0.1, 12, 2, 0};
  EXPECT_EQ(constant.at(11), 1.0);
  const LearningRate wsd{"wsd", 1.0, 0.0, 100, 0, 10};
  EXPECT_EQ(wsd.at(89), 1.0);
  EXPECT_EQ(wsd.at(90), 1.0);
  EXPECT_NEAR(wsd.at(91), 0.9, 1e-15);
  EXPECT_NEAR(wsd.at(95), 0.5, 1e-15);
  EXPECT_NEAR(wsd.at(99), 0.1, 1e-15);
}

TEST(LearningRate, HoldsTheEndAfterTheLastStep) {
  for (const char* rule : {"cosine", "linear", "wsd"}) {
    const LearningRate rate{rule, 1.0, 0.25, 10, 0, 5};
    EXPECT_NEAR(rate.at(10), 0.25, 1e-15) << rule;
    EXPECT_NEAR(rate.at(1000), 0.25, 1e-15) << rule;
  }
}

TEST(LearningRate, WarmUpOfTheWholeRun) {
  const LearningRate rate{"cosine", 1.0, 0.25, 10, 10, 0};
  EXPECT_DOUBLE_EQ(rate.at(9), 1.0);
  EXPECT_NEAR(rate.at(10), 0.25, 1e-15);
}

TEST(LearningRate, MayFallAtOnce) {
  const LearningRate rate{"wsd", 1.0, 0.25, 10, 2, 0};
  EXPECT_EQ(rate.at(9), 1.0);
  EXPECT_EQ(rate.at(10), 0.25);
}

TEST(LearningRate, RefusesWhatDoesNotFit) {
  tests::expect_error([] { LearningRate{"cosin", 1, 0, 10, 0, 0}.validate(); }, ExitCode::config, {"\"cosin\"", "cosine"});
  tests::expect_error([] { LearningRate{"cosine", 1, 0, 10, 11, 0}.validate(); }, ExitCode::config, {"warmup_steps = 11"});
  tests::expect_error([] { LearningRate{"wsd", 1, 0, 10, 6, 5}.validate(); }, ExitCode::config, {"decay_steps = 5", "0 to 4"});
  LearningRate{"wsd", 1, 0, 10, 6, 4}.validate();
}

TEST(Decay, SparesVectors) {
  EXPECT_TRUE(decays({4, 4}));
  EXPECT_TRUE(decays({2, 4, 4}));
  EXPECT_FALSE(decays({4}));
}

}  // namespace
}  // namespace millrace::layers
