#include "runtime/schedule/simulator/replay.hpp"

#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

TEST(Replay, LongerWarmupHidesLatencyForMemory) {
  const auto costs = uniform_costs(Placement::single(8), 1, 1, 1);
  const Timeline shortest = replay(one_f_one_b(8, 64), costs, 0.05);
  const Timeline longer = replay(one_f_one_b(8, 64, one_f_one_b_warmup(8, 14)), costs, 0.05);
  EXPECT_NEAR(longer.makespan, (64 + 7) * 3 + 2 * 0.05 * 7, 1e-9);  // latency is paid once, 2c(P−1)
  EXPECT_GT(shortest.makespan, 1.02 * longer.makespan);             // and twice per microbatch without
  EXPECT_EQ(longer.worst_peak(), 15);
}

TEST(Replay, OneSlowStageSetsThePace) {
  std::vector<StageCost> costs(3);
  costs[1] = {2, 2, 2, 4};
  const Timeline timeline = replay(gpipe(3, 10), costs, 0);
  EXPECT_NEAR(timeline.makespan, 10 * 6 + 2 * (1 + 2), 1e-9);
  EXPECT_NEAR(timeline.busy[1], 60, 1e-9);
}

TEST(Replay, ADeadScheduleIsAnError) {
  const Schedule dead = table(Placement::single(2), 2, {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"});
  expect_contains(error_of(ExitCode::config, [&] { (void)replay(dead, std::vector<StageCost>(2), 0); }),
                  "rank 0 stops before its action 1, 0B0");
}

}  // namespace
}  // namespace millrace::runtime
