#include "runtime/batch_ramp.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

TrainConfig config(std::int64_t start, std::int64_t increment, std::int64_t rows) {
  TrainConfig train;
  train.batch = 2;
  train.microbatches = 8;
  train.ramp_microbatches = start;
  train.ramp_increment = increment;
  train.ramp_rows = rows;
  return train;
}

// spec/training.md 2.4: three increments share 60 rows, 20 each. Steps of 4 rows need 5, those of 8 three, those of 12 two.
TEST(BatchRamp, GrowsWhenTheRowsOfAnIncrementAreTrained) {
  const BatchRamp ramp(config(2, 2, 60));
  const std::vector<std::int64_t> expected{2, 2, 2, 2, 2, 4, 4, 4, 6, 6, 8, 8, 8};
  std::int64_t before = 0;
  for (std::size_t step = 0; step < expected.size(); ++step) {
    const auto s = static_cast<std::int64_t>(step);
    EXPECT_EQ(ramp.microbatches(s), expected[step]) << step;
    EXPECT_EQ(ramp.before(s), before) << step;
    for (std::int64_t i = 0; i < expected[step]; ++i) EXPECT_EQ(ramp.step_of(before + i), s) << step << ", " << i;
    before += expected[step];
  }
  EXPECT_EQ(ramp.sizes(), (std::vector<std::int64_t>{2, 4, 6, 8}));
  EXPECT_EQ(ramp.microbatches(1'000'000), 8);
}

TEST(BatchRamp, IsTheSameNumberWithoutOne) {
  for (const BatchRamp& ramp : {BatchRamp(3), BatchRamp(config(0, 1, 0))}) {
    const std::int64_t each = ramp.microbatches(0);
    EXPECT_EQ(ramp.before(7), 7 * each);
    EXPECT_EQ(ramp.step_of(7 * each), 7);
    EXPECT_EQ(ramp.step_of(7 * each - 1), 6);
    EXPECT_EQ(ramp.sizes(), std::vector<std::int64_t>{each});
  }
  EXPECT_EQ(BatchRamp(config(0, 1, 0)).microbatches(5), 8);
}

TEST(BatchRamp, RefusesWhatDoesNotAddUp) {
  tests::expect_error([] { BatchRamp ramp(config(8, 1, 10)); }, ExitCode::config, {"train.ramp_microbatches = 8", "fewer than"});
  tests::expect_error([] { BatchRamp ramp(config(3, 2, 10)); }, ExitCode::config, {"train.ramp_increment = 2", "divisor of 5"});
  tests::expect_error([] { BatchRamp ramp(config(4, 2, 0)); }, ExitCode::config, {"train.ramp_rows = 0"});
}

}  // namespace
}  // namespace millrace::runtime
