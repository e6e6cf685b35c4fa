#include "runtime/optimizers/learning_rate.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
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

TEST(LearningRate, FallsAsTheInverseSquareRoot) {
  const LearningRate rate{"rsqrt", 1.0, 0.1, 12, 4, 0};
  EXPECT_DOUBLE_EQ(rate.at(3), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(4), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(16), 0.5) << "√(4/16)";
  const LearningRate without{"rsqrt", 1.0, 0.1, 12, 0, 0};
  EXPECT_DOUBLE_EQ(without.at(0), 1.0);
  EXPECT_DOUBLE_EQ(without.at(30'000), 0.5);
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

TEST(LearningRate, FallsInACosineAtTheEndOfWsd) {
  const LearningRate rate{"wsd-cosine", 1.0, 0.1, 100, 4, 10};
  EXPECT_EQ(rate.at(90), 1.0);
  EXPECT_NEAR(rate.at(95), 0.55, 1e-15);
  EXPECT_NEAR(rate.at(99), 0.1 + 0.9 * (1 + std::cos(0.9 * M_PI)) / 2, 1e-15);
  EXPECT_NEAR(rate.at(100), 0.1, 1e-15);
}

// The vectors of MaxText's create_learning_rate_schedule: lr 1, final 0.1, N = 100, warm-up 0.1.
TEST(LearningRate, FollowsMaxtextsCosine) {
  const LearningRate rate{"cosine", 1.0, 0.1, 100, 10, 0, "maxtext"};
  const struct {
    std::int64_t step;
    double rate;
  } expected[] = {{0, 0}, {5, 0.5}, {9, 0.9}, {10, 1}, {54, 0.557942}, {55, 0.542058}, {98, 0.100280}, {99, 0.1}, {100, 0}, {119, 0}};
  for (const auto& one : expected) EXPECT_NEAR(rate.at(one.step), one.rate, 1e-6) << one.step;
  EXPECT_EQ(rate.at(99), static_cast<double>(0.1F)) << "the last step has exactly the final rate, in fp32";
}

TEST(LearningRate, FollowsMaxtextsWsd) {
  const struct {
    std::int64_t step;
    double line, cosine;
  } expected[] = {{89, 1, 1}, {90, 1, 1}, {91, 0.9, 0.972862}, {95, 0.5, 0.471858}, {99, 0.1, 0.1}, {100, 0, 0}};
  for (const auto& one : expected) {
    EXPECT_NEAR((LearningRate{"wsd", 1.0, 0.1, 100, 10, 10, "maxtext"}.at(one.step)), one.line, 1e-6) << one.step;
    EXPECT_NEAR((LearningRate{"wsd-cosine", 1.0, 0.1, 100, 10, 10, "maxtext"}.at(one.step)), one.cosine, 1e-6) << one.step;
  }
}

TEST(LearningRate, OfMaxtextWithADecayOfOneStep) {
  EXPECT_EQ((LearningRate{"wsd", 1.0, 0.25, 10, 2, 1, "maxtext"}.at(9)), 1.0) << "a line of one step stays at its peak";
  EXPECT_EQ((LearningRate{"wsd-cosine", 1.0, 0.25, 10, 2, 1, "maxtext"}.at(9)), 0.25);
  EXPECT_EQ((LearningRate{"cosine", 1.0, 0.25, 3, 2, 0, "maxtext"}.at(2)), 0.25);
  EXPECT_EQ((LearningRate{"wsd", 1.0, 0.25, 10, 2, 0, "maxtext"}.at(9)), 1.0) << "an empty decay vanishes";
  EXPECT_EQ((LearningRate{"cosine", 1.0, 0.25, 4, 0, 0, "maxtext"}.at(0)), 1.0) << "an empty warm-up vanishes";
}

TEST(LearningRate, RefusesWhatMaxtextLacks) {
  for (const char* rule : {"linear", "constant"})
    tests::expect_error([&] { LearningRate{rule, 1, 0, 10, 0, 0, "maxtext"}.validate(); }, ExitCode::config, {rule, "wsd-cosine"});
  LearningRate{"wsd-cosine", 1, 0, 10, 6, 4, "maxtext"}.validate();
}

TEST(LearningRate, ComesFromTheKeys) {
  TrainConfig train;
  train.decay = "wsd";
  train.learning_rate = 0.5;
  train.final_learning_rate = 0.25;
  train.steps = 10;
  train.warmup_steps = 3;
  train.decay_steps = 4;
  train.numerics = "maxtext";
  const LearningRate rate = learning_rate(train);
  EXPECT_EQ(rate.at(3), 0.5);
  EXPECT_EQ(rate.at(6), 0.5);
  EXPECT_EQ(rate.at(9), 0.25);
  EXPECT_EQ(rate.at(10), 0.0);
}

}  // namespace
}  // namespace millrace::runtime
