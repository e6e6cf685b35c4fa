#include "runtime/engine/update_rule.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

TrainConfig config(const char* numerics, double clip) {
  TrainConfig train;
  train.numerics = numerics;
  train.clip = clip;
  train.skip_spikes = true;
  train.skip_window = 2;
  train.skip_factor = 1;
  return train;
}

UpdateRule rule(const TrainConfig& train) {
  return {train, [](std::int64_t step) { return 10.0 * static_cast<double>(step + 1); }};
}

TEST(UpdateRule, CountsStepsWhereNoneIsSkipped) {
  TrainConfig train = config("hf", 1.0);
  train.skip_spikes = false;
  UpdateRule all = rule(train);
  EXPECT_FALSE(all.skips());
  for (std::int64_t step = 0; step < 3; ++step) {
    const auto update = all.next(step, 1e9 * static_cast<double>(step), 4);
    EXPECT_FALSE(update.skipped);
    EXPECT_EQ(update.update, step + 1);
    EXPECT_EQ(update.learning_rate, 10.0 * static_cast<double>(step + 1));
    EXPECT_EQ(update.step_rate, update.learning_rate);
    EXPECT_NEAR(static_cast<double>(update.gradient_scale), 0.25, 1e-6);
    EXPECT_NEAR(update.clipped_norm, 1.0, 1e-6);
  }
  EXPECT_TRUE(all.state().empty());
}

// With the optimizer's states of another run, whose corrections depend on how many updates they have seen.
TEST(UpdateRule, CountsOnFromTheUpdatesOfAnotherRun) {
  for (const bool spikes : {false, true}) {
    TrainConfig train = config("maxtext", 0);
    train.skip_spikes = spikes;
    const auto rate = [](std::int64_t step) { return 10.0 * static_cast<double>(step + 1); };
    UpdateRule first(train, rate, 40);
    EXPECT_EQ(first.next(0, 1, 1).update, 41);
    const auto second = first.next(1, 1, 1);
    EXPECT_EQ(second.update, 42);
    EXPECT_EQ(second.learning_rate, 20.0) << "the rate is that of the run's own steps";
    const auto third = first.next(2, 9, 1);
    EXPECT_EQ(third.skipped, spikes);
    EXPECT_EQ(updates_seen(3, first.state()), spikes ? 42 : 43);
    UpdateRule resumed(train, rate);
    resumed.restore(first.state());
    EXPECT_EQ(resumed.next(3, 1, 1).update, spikes ? 43 : 44);
    EXPECT_EQ(resumed.state(), [&] {
      static_cast<void>(first.next(3, 1, 1));
      return first.state();
    }());
  }
  EXPECT_EQ(updates_seen(7, {}), 7);
}

// A norm that grows above the clipping threshold is a spike before clipping and none after it.
TEST(UpdateRule, TestsTheNormBeforeClippingInHfAndAfterItInMaxtext) {
  for (const bool maxtext : {false, true}) {
    UpdateRule all = rule(config(maxtext ? "maxtext" : "hf", 1.0));
    EXPECT_FALSE(all.next(0, 1, 2).skipped);
    EXPECT_EQ(all.next(1, 1, 8).skipped, !maxtext);
    EXPECT_EQ(all.skipped(), maxtext ? 0 : 1);
  }
}

TEST(UpdateRule, CountsUpdatesAfterASkippedStep) {
  for (const bool maxtext : {false, true}) {
    UpdateRule all = rule(config(maxtext ? "maxtext" : "hf", 0));
    EXPECT_EQ(all.next(0, 1, 1).update, 1);
    EXPECT_TRUE(all.next(1, 5, 1).skipped);
    const auto update = all.next(2, 1, 1);
    EXPECT_FALSE(update.skipped);
    EXPECT_EQ(update.update, 2) << "for the bias corrections";
    EXPECT_EQ(update.step_rate, 30.0) << "as it is shown";
    EXPECT_EQ(update.learning_rate, maxtext ? 20.0 : 30.0);
    EXPECT_EQ(all.skipped(), 1);
  }
}

TEST(UpdateRule, ContinuesFromItsState) {
  const TrainConfig train = config("maxtext", 0);
  UpdateRule first = rule(train), second = rule(train);
  for (std::int64_t step = 0; step < 5; ++step) static_cast<void>(first.next(step, step == 3 ? 9 : 1, 1));
  second.restore(first.state());
  EXPECT_EQ(second.skipped(), first.skipped());
  for (std::int64_t step = 5; step < 9; ++step) {
    const auto a = first.next(step, step == 6 ? 20 : 1, 1), b = second.next(step, step == 6 ? 20 : 1, 1);
    EXPECT_EQ(a.update, b.update);
    EXPECT_EQ(a.skipped, b.skipped);
    EXPECT_EQ(a.learning_rate, b.learning_rate);
  }
  auto state = first.state();
  state.pop_back();
  tests::expect_error([&] { second.restore(state); }, ExitCode::checkpoint, {"skip_step.skipped"});
}

}  // namespace
}  // namespace millrace::runtime
