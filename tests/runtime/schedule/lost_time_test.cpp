#include "runtime/schedule/simulator/lost_time.hpp"

#include "tests/runtime/schedule/random_costs.hpp"

namespace millrace::runtime {
namespace {

TEST(LostTime, AddsUpToTheMakespan) {
  RandomRuns runs(51);
  for (int trial = 0; trial < 40; ++trial) {
    const RandomRun run = runs.next();
    EXPECT_NEAR(lost_time(run.schedule, run.costs).makespan(), simulate(run.schedule, run.costs, false).makespan, 1e-9);
  }
}

TEST(LostTime, EachCauseIsNamed) {
  const Schedule schedule = one_f_one_b(4, 8);
  Costs costs;
  costs.stages = uniform_costs(schedule.placement, 1, 1, 1);
  LostTime lost = lost_time(schedule, costs);
  EXPECT_NEAR(lost.work, 24, 1e-9);
  EXPECT_NEAR(lost.bubble, 9, 1e-9);
  EXPECT_NEAR(lost.makespan(), 33, 1e-9);

  costs.noise.stalls = {{RankId{3}, 2, 0.5}};
  lost = lost_time(schedule, costs);
  EXPECT_NEAR(lost.stalls, 0.5, 1e-9);
  costs.noise.stalls.clear();

  costs.noise.slowdown = {1, 1.3, 1, 1};
  lost = lost_time(schedule, costs);
  EXPECT_NEAR(lost.slow_ranks, simulate(schedule, costs).makespan - 33, 1e-9);
  EXPECT_GT(lost.slow_ranks, 5);
  EXPECT_NEAR(lost.imbalance, 0, 1e-9);
  costs.noise.slowdown.clear();

  for (double* cost : {&costs.stages[1].forward, &costs.stages[1].backward}) *cost *= 1.3;
  lost = lost_time(schedule, costs);
  EXPECT_GT(lost.imbalance, 2);
  EXPECT_NEAR(lost.slow_ranks, 0, 1e-9);
  expect_contains(to_string(lost, "ms"), "unequal stages");

  costs.stages = uniform_costs(schedule.placement, 1, 1, 1);
  costs.links = uniform_links(schedule.placement, 0.05);
  lost = lost_time(schedule, costs);
  EXPECT_GT(lost.latency, 2 * 0.05 * 3 - 1e-9);
  EXPECT_NEAR(lost.bandwidth, 0, 1e-9);
}

}  // namespace
}  // namespace millrace::runtime
