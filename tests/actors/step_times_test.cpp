#include "actors/rank/step_times.hpp"

#include <gtest/gtest.h>

#include "actors/rank/rank_metrics.hpp"

namespace millrace::actors {
namespace {

TEST(StepTimes, AWaitIsForATokenOnItsWayOrForASlot) {
  runtime::StepBreakdown shares;
  shares.wall = 1000;
  shares.compute = 100;
  shares.bubble = 20;
  shares.transport = 3;
  shares.credit = 400;
  shares.exchange = 7;
  shares.data = 50;
  shares.reduction = 11;
  const auto times = step_times(shares);
  EXPECT_EQ(times.wall, 1000);
  EXPECT_EQ(times.compute, 100);
  EXPECT_EQ(times.bubble, 20);
  EXPECT_EQ(times.wait, 403);
  EXPECT_EQ(times.exchange, 7);
  EXPECT_EQ(times.data, 50);
  EXPECT_EQ(times.other(), 1000 - 100 - 20 - 403 - 7 - 50 - 11);
  EXPECT_EQ(times.reduction, 11);
}

TEST(StepMetrics, OfAllRanksAreCombinedAsTheTableSays) {
  const std::vector<double> values{3, 9, 6};
  EXPECT_EQ(combine(Combine::sum, values, 100), 18);
  EXPECT_EQ(combine(Combine::max, values, 100), 9);
  EXPECT_EQ(combine(Combine::max, std::vector<double>{-2, -5}, 100), -2);
  EXPECT_EQ(combine(Combine::mean, values, 100), 6);
  EXPECT_EQ(combine(Combine::first, values, 100), 3);
  EXPECT_EQ(combine(Combine::time_share, values, 100), 0.18);
  EXPECT_EQ(combine(Combine::time_share, values, 0), 0);
}

TEST(StepMetrics, ARankMeasuresEachOfThem) {
  std::vector<double> values;
  measure_step({1000, 100, 20, 403, 7, 50, 11}, {4096, 512}, values);
  ASSERT_EQ(values.size(), step_metrics.size());
  EXPECT_EQ(values[metric_index("bubble")], 20);
  EXPECT_EQ(values[metric_index("wait")], 403);
  EXPECT_EQ(values[metric_index("exchange")], 7);
  EXPECT_EQ(values[metric_index("exchange_bytes")], 4096);
  EXPECT_EQ(values[metric_index("data")], 50);
  EXPECT_EQ(values[metric_index("reduction")], 11);
  EXPECT_EQ(values[metric_index("reduction_bytes")], 512);
  EXPECT_GT(values[metric_index("resident_bytes")], 0x1p20);
}

}  // namespace
}  // namespace millrace::actors
