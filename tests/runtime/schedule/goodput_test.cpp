#include "runtime/schedule/simulator/goodput.hpp"

#include <cmath>

#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

TEST(Goodput, AllIsUsefulWhereNothingFails) {
  const Goodput result = goodput({0, 5, 7}, 1000, 1);
  EXPECT_EQ(result.useful, 1);
  EXPECT_EQ(result.snapshot_interval, 0);
}

TEST(Goodput, FollowsYoungAndTheSharesByHand) {
  // 1,000 ranks that fail every 8,000,000 s: the job fails every 8,000 s. √(2 · 4 · 8000) = 252.98 s between snapshots of 4 s.
  const Goodput result = goodput({8e6, 4, 100}, 1000, 1);
  EXPECT_DOUBLE_EQ(result.job_interval, 8000);
  EXPECT_NEAR(result.snapshot_interval, 252.982, 1e-3);
  // Within 256.982 s there are 4 s of snapshot, and 256.982 / 8000 failures that cost 128.491 + 100 s each: 7.3398 s.
  EXPECT_NEAR(result.useful, 252.982 / (256.982 + 7.3398), 1e-6);
}

TEST(Goodput, TheIntervalIsTheBestOne) {
  const FailureModel failures{1e6, 2, 30};
  const Goodput best = goodput(failures, 100, 0.1);
  // The same formula for another interval, which a minimum step of that length enforces.
  const double longer = goodput(failures, 100, 1.5 * best.snapshot_interval).useful;
  EXPECT_LT(longer, best.useful);
  EXPECT_NEAR(goodput(failures, 100, 1.02 * best.snapshot_interval).useful, best.useful, 1e-4) << "flat at the top";
}

TEST(Goodput, SnapshotsForNothingAreTakenEveryStep) {
  const Goodput result = goodput({1000, 0, 0}, 10, 2);
  EXPECT_EQ(result.snapshot_interval, 2);
  EXPECT_DOUBLE_EQ(result.useful, 2 / (2 + 2.0 / 100 * 1)) << "half a step is lost with each failure";
}

TEST(Goodput, SaysWhatIsWrong) {
  expect_contains(error_of(ExitCode::internal, [] { (void)goodput({1000, -1, 0}, 10, 2); }), "snapshot -1");
}

}  // namespace
}  // namespace millrace::runtime
