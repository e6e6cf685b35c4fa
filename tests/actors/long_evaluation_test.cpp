#include "actors/telemetry/long_evaluation.hpp"

#include <gtest/gtest.h>

namespace millrace::actors {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const LongEvaluation::Clock::time_point start{seconds(1000)};

TEST(LongEvaluation, ALogHasALineEveryTenSeconds) {
  LongEvaluation progress(false);
  EXPECT_EQ(progress.show(3, start), std::nullopt) << "none is running";
  progress.begin(100, start);
  EXPECT_EQ(progress.show(0, start + milliseconds(9900)), std::nullopt);
  EXPECT_EQ(progress.show(0, start + seconds(10)), "0 of 100 microbatches");
  EXPECT_EQ(progress.show(20, start + seconds(19)), std::nullopt);
  EXPECT_EQ(progress.show(25, start + seconds(20)), "25 of 100 microbatches | 1m00s left");
  EXPECT_EQ(progress.show(-1, start + seconds(40)), "25 of 100 microbatches | 2m00s left") << "the rank waits: nothing is undone";
  EXPECT_EQ(progress.show(500, start + seconds(50)), "100 of 100 microbatches | 0s left");
  progress.begin(0, start + seconds(51));
  EXPECT_EQ(progress.show(1, start + seconds(99)), std::nullopt) << "it is over";
  progress.begin(10, start + seconds(100));
  EXPECT_EQ(progress.show(0, start + seconds(110)), "0 of 10 microbatches") << "the next one begins anew";
}

TEST(LongEvaluation, ATerminalShowsAShortEvaluationNothing) {
  LongEvaluation progress(true);
  progress.begin(10, start);
  EXPECT_EQ(progress.show(5, start + milliseconds(1900)), std::nullopt);
  EXPECT_EQ(progress.show(5, start + milliseconds(2000)), "5 of 10 microbatches | 2s left");
  EXPECT_EQ(progress.show(5, start + milliseconds(2100)), std::nullopt);
  EXPECT_EQ(progress.show(6, start + milliseconds(2200)), "6 of 10 microbatches | 1s left");
}

}  // namespace
}  // namespace millrace::actors
