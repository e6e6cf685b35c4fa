#include "actors/jobs/machine_peak.hpp"

#include <gtest/gtest.h>

namespace millrace::actors {
namespace {

TEST(SharesOfPeak, ARankHasThatOfItsThreads) {
  const auto machine = shares_of_peak(8e9, {8, 2, 2}, 2);  // the host's peak was measured with the four threads that compute
  EXPECT_DOUBLE_EQ(machine.peak_flops, 4e9);
  EXPECT_DOUBLE_EQ(machine.job_peak_flops, 8e9);
}

TEST(SharesOfPeak, MoreThreadsThanCoresComputeNoMore) {
  const auto machine = shares_of_peak(3e9, {2, 1, 64}, 1);
  EXPECT_DOUBLE_EQ(machine.peak_flops, 3e9);
  EXPECT_DOUBLE_EQ(machine.job_peak_flops, 3e9);
}

TEST(SharesOfPeak, RanksThatTakeTurnsHaveACoreEach) {
  const auto machine = shares_of_peak(3e9, {2, 4, 1}, 4);
  EXPECT_DOUBLE_EQ(machine.peak_flops, 1.5e9);
  EXPECT_DOUBLE_EQ(machine.job_peak_flops, 3e9);
}

TEST(SharesOfPeak, HostsAddUp) { EXPECT_DOUBLE_EQ(shares_of_peak(3e9, {2, 2, 1}, 8).job_peak_flops, 12e9); }

}  // namespace
}  // namespace millrace::actors
