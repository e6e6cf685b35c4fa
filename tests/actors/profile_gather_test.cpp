#include "actors/telemetry/profile_gather.hpp"

#include <gtest/gtest.h>

namespace millrace::actors {
namespace {

TEST(SetClock, TakesTheSmallestRoundTrip) {
  // The other clock is 1000 behind; if the two directions take unequal time, the estimate is wrong by up to half of the round
  // trip.
  const std::vector<RoundTrip> trips = {{5000, 4000 + 90, 5100}, {6000, 5000 + 7, 6010}, {7000, 6000 + 1, 7040}};
  runtime::ProcessClock clock;
  clock.shared = false;
  set_clock(clock, trips);
  EXPECT_EQ(clock.round_trip, 10);
  EXPECT_EQ(clock.pings, 3);
  EXPECT_EQ(clock.bound, 5);
  EXPECT_LE(std::abs(clock.offset - 1000), clock.bound);
  EXPECT_EQ(clock.offset, clock.measured);
}

TEST(SetClock, OneKernelHasOneClock) {
  runtime::ProcessClock clock;
  clock.shared = true;
  set_clock(clock, {{100, 103, 111}});
  EXPECT_EQ(clock.offset, 0);
  EXPECT_EQ(clock.bound, 0);
  EXPECT_EQ(clock.measured, 2);
  EXPECT_EQ(clock.round_trip, 11);
}

}  // namespace
}  // namespace millrace::actors
