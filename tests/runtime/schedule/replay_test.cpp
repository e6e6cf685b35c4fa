#include "runtime/schedule/replay.hpp"

#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

// Golden rows. Set A: F = I = W = 1, no latency; set B: F = 1, I = 1.1, W = 0.8, latency 0.05, all per rank and microbatch.
struct Row {
  const char* name;
  int ranks, chunks, microbatches;
  double makespan_a, span_a, makespan_b, span_b, peak_first, peak_worst;
};

const Row rows[] = {
    {"gpipe", 2, 1, 4, 15.000, 15.000, 14.600, 14.600, 4, 4},
    {"1f1b", 2, 1, 4, 15.000, 15.000, 14.700, 14.700, 2, 2},
    {"looped-bfs", 2, 2, 4, 13.500, 13.500, 13.150, 13.150, 4, 4},
    {"zb-h1", 2, 1, 4, 13.000, 13.000, 13.100, 13.100, 2, 2},
    {"gpipe", 4, 1, 8, 33.000, 33.000, 32.200, 32.200, 8, 8},
    {"1f1b", 4, 1, 8, 33.000, 33.000, 32.700, 32.700, 4, 4},
    {"looped-bfs", 4, 2, 8, 28.500, 28.500, 27.850, 27.850, 8, 8},
    {"zb-h1", 4, 1, 8, 27.000, 27.000, 27.700, 27.700, 4, 4},
    {"gpipe", 4, 1, 12, 45.000, 45.000, 43.800, 43.800, 12, 12},
    {"1f1b", 4, 1, 12, 45.000, 45.000, 44.600, 44.600, 4, 4},
    {"looped-bfs", 4, 2, 12, 40.500, 40.500, 39.450, 39.450, 12, 12},
    {"zb-h1", 4, 1, 12, 39.000, 39.000, 39.300, 39.300, 4, 4},
    {"gpipe", 8, 1, 16, 69.000, 69.000, 67.400, 67.400, 16, 16},
    {"1f1b", 8, 1, 16, 69.000, 69.000, 68.700, 68.700, 8, 8},
    {"looped-bfs", 8, 2, 16, 58.500, 58.500, 57.250, 57.250, 16, 16},
    {"zb-h1", 8, 1, 16, 55.000, 55.000, 56.900, 56.900, 8, 8},
    {"gpipe", 8, 1, 32, 117.000, 117.000, 113.800, 113.800, 32, 32},
    {"1f1b", 8, 1, 32, 117.000, 117.000, 116.500, 116.500, 8, 8},
    {"looped-bfs", 8, 2, 32, 106.500, 106.500, 103.650, 103.650, 32, 32},
    {"zb-h1", 8, 1, 32, 103.000, 103.000, 103.300, 103.300, 8, 8},
    {"gpipe", 16, 1, 64, 237.000, 237.000, 230.600, 230.600, 64, 64},
    {"1f1b", 16, 1, 64, 237.000, 237.000, 236.500, 236.500, 16, 16},
    {"looped-bfs", 16, 2, 64, 214.500, 214.500, 208.850, 208.850, 64, 64},
    {"zb-h1", 16, 1, 64, 207.000, 207.000, 208.100, 208.100, 16, 16},
};

TEST(Replay, GoldenVectors) {
  for (const Row& row : rows) {
    const ScheduleRequest request{row.name, row.ranks, row.chunks, row.microbatches, {}};
    SCOPED_TRACE(name_of(request));
    const Schedule schedule = make_schedule(request);
    const Timeline a = replay(schedule, uniform_costs(schedule.placement, 1, 1, 1), 0);
    const Timeline b = replay(schedule, uniform_costs(schedule.placement, 1, 1.1, 0.8), 0.05);
    EXPECT_NEAR(a.makespan, row.makespan_a, 1e-9);
    EXPECT_NEAR(a.span, row.span_a, 1e-9);
    EXPECT_NEAR(b.makespan, row.makespan_b, 5e-4);
    EXPECT_NEAR(b.span, row.span_b, 5e-4);
    EXPECT_EQ(a.peak.front(), row.peak_first);
    EXPECT_EQ(a.worst_peak(), row.peak_worst);
    for (double busy : a.busy) EXPECT_NEAR(busy, 3.0 * row.microbatches, 1e-9);
  }
}

TEST(Replay, LongerWarmupHidesLatencyForMemory) {
  const auto costs = uniform_costs(Placement::single(8), 1, 1, 1);
  const Timeline shortest = replay(one_f_one_b(8, 64), costs, 0.05);
  const Timeline longer = replay(one_f_one_b(8, 64, one_f_one_b_warmup(8, 14)), costs, 0.05);
  EXPECT_NEAR(longer.makespan, (64 + 7) * 3 + 2 * 0.05 * 7, 1e-9);  // latency paid once, 2c(P−1)
  EXPECT_GT(shortest.makespan, 1.02 * longer.makespan);             // and twice a microbatch without
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
