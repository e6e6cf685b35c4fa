#include "actors/rank/step_times.hpp"

#include <gtest/gtest.h>

namespace millrace::actors {
namespace {

TEST(StepTimes, AWaitIsForATokenOnItsWayOrForASlot) {
  runtime::StepBreakdown shares;
  shares.wall = 1000;
  shares.compute = 100;
  shares.bubble = 20;
  shares.transport = 3;
  shares.credit = 400;
  shares.data = 50;
  const auto times = step_times(shares);
  EXPECT_EQ(times.wall, 1000);
  EXPECT_EQ(times.compute, 100);
  EXPECT_EQ(times.bubble, 20);
  EXPECT_EQ(times.wait, 403);
  EXPECT_EQ(times.data, 50);
}

}  // namespace
}  // namespace millrace::actors
