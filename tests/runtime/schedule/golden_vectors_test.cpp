// Every schedule against the numbers of an independent model of the same rules. Set A: F = I = W = 1, no latency; set B: F = 1, I
// = 1.1, W = 0.8, latency 0.05; all per rank and microbatch. An overlapped pair takes the sum of its halves.

#include "runtime/schedule/simulator/replay.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

struct Row {
  const char* name;
  int ranks, chunks, microbatches;
  double makespan_a, span_a, makespan_b, span_b, peak_first, peak_worst;
};

constexpr Row rows[] = {
    {"gpipe", 2, 1, 4, 15.000, 15.000, 14.600, 14.600, 4, 4},
    {"1f1b", 2, 1, 4, 15.000, 15.000, 14.700, 14.700, 2, 2},
    {"looped-bfs", 2, 2, 4, 13.500, 13.500, 13.150, 13.150, 4, 4},
    {"interleaved", 2, 2, 4, 13.500, 13.500, 13.350, 13.350, 2.5, 2.5},
    {"interleaved", 2, 4, 4, 12.750, 12.750, 13.025, 13.025, 2.25, 2.25},
    {"zb-h1", 2, 1, 4, 13.000, 13.000, 13.100, 13.100, 2, 2},
    {"zb-h2", 2, 1, 4, 13.000, 12.000, 12.650, 12.200, 3, 3},
    {"interleaved-zb", 2, 2, 4, 12.500, 12.500, 12.550, 12.550, 2, 2},
    {"zb-v", 2, 2, 4, 12.500, 12.000, 12.300, 12.100, 2, 2},
    {"dualpipe-v", 2, 2, 4, 13.000, 13.000, 12.950, 12.950, 2.5, 2.5},
    {"dualpipe", 2, 1, 4, 12.000, 12.000, 11.750, 11.750, 3, 3},
    {"gpipe", 4, 1, 8, 33.000, 33.000, 32.200, 32.200, 8, 8},
    {"1f1b", 4, 1, 8, 33.000, 33.000, 32.700, 32.700, 4, 4},
    {"looped-bfs", 4, 2, 8, 28.500, 28.500, 27.850, 27.850, 8, 8},
    {"interleaved", 4, 2, 8, 28.500, 28.500, 28.250, 28.250, 5.5, 5.5},
    {"interleaved", 4, 4, 8, 26.250, 26.250, 26.875, 26.875, 4.75, 4.75},
    {"zb-h1", 4, 1, 8, 27.000, 27.000, 27.700, 27.700, 4, 4},
    {"zb-h2", 4, 1, 8, 27.000, 24.000, 26.350, 25.000, 7, 7},
    {"interleaved-zb", 4, 2, 8, 25.500, 25.500, 25.950, 25.950, 4, 4},
    {"zb-v", 4, 2, 8, 25.500, 24.000, 25.500, 24.900, 4, 4},
    {"dualpipe-v", 4, 2, 8, 27.000, 27.000, 27.450, 27.450, 4.5, 4.5},
    {"dualpipe", 4, 1, 8, 26.000, 26.000, 25.950, 25.950, 5, 5},
    {"gpipe", 4, 1, 12, 45.000, 45.000, 43.800, 43.800, 12, 12},
    {"1f1b", 4, 1, 12, 45.000, 45.000, 44.600, 44.600, 4, 4},
    {"looped-bfs", 4, 2, 12, 40.500, 40.500, 39.450, 39.450, 12, 12},
    {"interleaved", 4, 2, 12, 40.500, 40.500, 39.850, 39.850, 5.5, 5.5},
    {"interleaved", 4, 4, 12, 38.250, 38.250, 38.475, 38.475, 4.75, 4.75},
    {"zb-h1", 4, 1, 12, 39.000, 39.000, 39.300, 39.300, 4, 4},
    {"zb-h2", 4, 1, 12, 39.000, 36.000, 37.950, 36.600, 7, 7},
    {"interleaved-zb", 4, 2, 12, 37.500, 37.500, 37.550, 37.550, 4, 4},
    {"zb-v", 4, 2, 12, 37.500, 36.000, 37.100, 36.500, 4, 4},
    {"dualpipe-v", 4, 2, 12, 39.000, 39.000, 39.350, 39.350, 4.5, 4.5},
    {"dualpipe", 4, 1, 12, 38.000, 38.000, 37.700, 37.700, 5, 5},
    {"gpipe", 8, 1, 16, 69.000, 69.000, 67.400, 67.400, 16, 16},
    {"1f1b", 8, 1, 16, 69.000, 69.000, 68.700, 68.700, 8, 8},
    {"looped-bfs", 8, 2, 16, 58.500, 58.500, 57.250, 57.250, 16, 16},
    {"interleaved", 8, 2, 16, 58.500, 58.500, 58.050, 58.050, 11.5, 11.5},
    {"interleaved", 8, 4, 16, 53.250, 53.250, 54.575, 54.575, 9.75, 9.75},
    {"zb-h1", 8, 1, 16, 55.000, 55.000, 56.900, 56.900, 8, 8},
    {"zb-h2", 8, 1, 16, 55.000, 48.000, 53.750, 50.600, 15, 15},
    {"interleaved-zb", 8, 2, 16, 51.500, 51.500, 52.750, 52.750, 8, 8},
    {"zb-v", 8, 2, 16, 51.500, 48.000, 51.900, 50.500, 8, 8},
    {"dualpipe-v", 8, 2, 16, 55.000, 55.000, 57.000, 57.000, 8.5, 8.5},
    {"dualpipe", 8, 1, 16, 54.000, 54.000, 54.450, 54.450, 9, 9},
    {"gpipe", 8, 1, 32, 117.000, 117.000, 113.800, 113.800, 32, 32},
    {"1f1b", 8, 1, 32, 117.000, 117.000, 116.500, 116.500, 8, 8},
    {"looped-bfs", 8, 2, 32, 106.500, 106.500, 103.650, 103.650, 32, 32},
    {"interleaved", 8, 2, 32, 106.500, 106.500, 104.450, 104.450, 11.5, 11.5},
    {"interleaved", 8, 4, 32, 101.250, 101.250, 100.975, 100.975, 9.75, 9.75},
    {"zb-h1", 8, 1, 32, 103.000, 103.000, 103.300, 103.300, 8, 8},
    {"zb-h2", 8, 1, 32, 103.000, 96.000, 100.150, 97.000, 15, 15},
    {"interleaved-zb", 8, 2, 32, 99.500, 99.500, 99.150, 99.150, 8, 8},
    {"zb-v", 8, 2, 32, 99.500, 96.000, 98.300, 96.900, 8, 8},
    {"dualpipe-v", 8, 2, 32, 103.000, 103.000, 104.800, 104.800, 8.5, 8.5},
    {"dualpipe", 8, 1, 32, 102.000, 102.000, 101.550, 101.550, 9, 9},
    {"gpipe", 16, 1, 64, 237.000, 237.000, 230.600, 230.600, 64, 64},
    {"1f1b", 16, 1, 64, 237.000, 237.000, 236.500, 236.500, 16, 16},
    {"looped-bfs", 16, 2, 64, 214.500, 214.500, 208.850, 208.850, 64, 64},
    {"interleaved", 16, 2, 64, 214.500, 214.500, 210.450, 210.450, 23.5, 23.5},
    {"interleaved", 16, 4, 64, 203.250, 203.250, 202.775, 202.775, 19.75, 19.75},
    {"zb-h1", 16, 1, 64, 207.000, 207.000, 208.100, 208.100, 16, 16},
    {"zb-h2", 16, 1, 64, 207.000, 192.000, 201.350, 194.600, 31, 31},
    {"interleaved-zb", 16, 2, 64, 199.500, 199.500, 199.150, 199.150, 16, 16},
    {"zb-v", 16, 2, 64, 199.500, 192.000, 197.500, 194.500, 16, 16},
    {"dualpipe-v", 16, 2, 64, 207.000, 207.000, 212.000, 212.000, 16.5, 16.5},
    {"dualpipe", 16, 1, 64, 206.000, 206.000, 205.800, 205.800, 17, 17},
};

TEST(GoldenVectors, MakespanSpanAndPeak) {
  for (const Row& row : rows) {
    const ScheduleRequest request{row.name, row.ranks, row.chunks, row.microbatches, {}};
    SCOPED_TRACE(name_of(request));
    const Schedule schedule = make_schedule(request);
    const Timeline a = replay(schedule, uniform_costs(schedule.placement, 1, 1, 1), 0);
    const Timeline b = replay(schedule, uniform_costs(schedule.placement, 1, 1.1, 0.8), 0.05);
    EXPECT_NEAR(a.makespan, row.makespan_a, 5e-4);
    EXPECT_NEAR(a.span, row.span_a, 5e-4);
    EXPECT_NEAR(b.makespan, row.makespan_b, 5e-4);
    EXPECT_NEAR(b.span, row.span_b, 5e-4);
    EXPECT_EQ(a.peak.front(), row.peak_first);
    EXPECT_EQ(a.worst_peak(), row.peak_worst);
    for (double busy : a.busy) EXPECT_NEAR(busy, 3.0 * row.microbatches, 1e-9);
  }
}

// -- schedules with a closed formula and no row ------------------------------------------------------------------------

TEST(GoldenVectors, VHalfHasHalfTheBubbleAndHalfTheMemoryOf1F1B) {
  for (int ranks : {2, 3, 4, 5, 8, 9, 16, 32}) {
    const Schedule schedule = v_half(ranks, 3 * ranks);
    const Timeline timeline = replay(schedule, uniform_costs(schedule.placement, 1, 1, 1), 0);
    const double bubble = timeline.makespan - 3.0 * schedule.microbatches;
    EXPECT_NEAR(bubble, 1.5 * (ranks - 1) - (ranks % 2 == 1 ? 0.5 : 0.0), 1e-9) << ranks;
    EXPECT_EQ(timeline.worst_peak(), ranks % 2 == 0 ? ranks / 2 + 1 : (ranks + 1) / 2) << ranks;
  }
}

TEST(GoldenVectors, VMinHasAThirdOfTheMemoryOf1F1B) {
  for (int ranks : {4, 5, 6, 8, 9, 16, 32}) {
    const Schedule schedule = v_min(ranks, 3 * ranks);
    const Timeline timeline = replay(schedule, uniform_costs(schedule.placement, 1, 1, 1), 0);
    const double share = (timeline.makespan - 3.0 * schedule.microbatches) / (3.0 * (ranks - 1));
    EXPECT_GE(share, 0.55) << ranks;
    EXPECT_LE(share, 0.8) << ranks;
    EXPECT_LE(timeline.worst_peak(), ranks / 3.0 + 1.5) << ranks;
  }
}

TEST(GoldenVectors, VMinLosesMoreTheLongerItRunsWhereCostsDiffer) {
  // Measured at P = 8 with 16 more microbatches; V-Half's bubble does not grow.
  const auto growth = [](Schedule (*make)(int, int)) {
    const auto bubble = [make](int m) {
      const Schedule schedule = make(8, m);
      return replay(schedule, uniform_costs(schedule.placement, 1, 1.1, 0.8), 0).makespan - 2.9 * m;
    };
    return bubble(32) - bubble(16);
  };
  EXPECT_NEAR(growth(v_half), 0, 0.5);
  EXPECT_GT(growth(v_min), 5);
  EXPECT_LT(growth(v_min), 9);
}

TEST(GoldenVectors, ALargerGroupHoldsMore) {
  for (int group : {4, 6, 8}) {
    const Schedule schedule = interleaved(4, 2, 24, group);
    const Timeline timeline = replay(schedule, uniform_costs(schedule.placement, 1, 1, 1), 0);
    EXPECT_NEAR(timeline.makespan, 24 * 3 + 1.5 * 3, 1e-9) << group;
    EXPECT_EQ(timeline.peak.front(), (2 * 3 + group + 1) / 2.0) << group;
  }
}

}  // namespace
}  // namespace millrace::runtime
