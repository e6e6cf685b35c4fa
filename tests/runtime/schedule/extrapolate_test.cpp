#include "runtime/schedule/simulator/extrapolate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/runtime/schedule/random_costs.hpp"

namespace millrace::runtime {
namespace {

/// 1f1b with F = I = W = 1.
struct Pipeline {
  Schedule schedule;
  Costs costs;
  Pipeline(int ranks, int microbatches) : schedule(one_f_one_b(ranks, microbatches)) {
    costs.stages = uniform_costs(schedule.placement, 1, 1, 1);
  }
};

const std::vector<int> powers{1, 2, 4, 16, 64, 256, 1024, 4096, 65536};

TEST(Extrapolate, WithoutNoiseEveryScaleIsTheSimulatedStep) {
  RandomRuns runs(11);
  for (int trial = 0; trial < 20; ++trial) {
    RandomRun run = runs.next();
    run.costs.noise.jitter = 0;
    const double makespan = simulate(run.schedule, run.costs, false).makespan;
    ScaleModel model;
    model.error = {0.02, 0, static_cast<double>(run.schedule.ranks.size())};
    for (const auto& point : extrapolate(run.schedule, run.costs, model, powers).points) {
      EXPECT_EQ(point.step, makespan);
      EXPECT_EQ(point.low, makespan * 0.98);
      EXPECT_EQ(point.high, makespan * 1.02);
      EXPECT_EQ(point.efficiency, 1);
    }
  }
}

TEST(Extrapolate, TheBandWidensWithEachDoubling) {
  const PredictionError error{0.01, 0.005, 8};
  EXPECT_DOUBLE_EQ(error.at(2), 0.01) << "not narrower below what was measured";
  EXPECT_DOUBLE_EQ(error.at(8), 0.01);
  EXPECT_DOUBLE_EQ(error.at(64), 0.025);
  const Pipeline pipeline(8, 8);
  ScaleModel model;
  model.error = error;
  const auto points = extrapolate(pipeline.schedule, pipeline.costs, model, {1, 1 << 20}).points;
  EXPECT_DOUBLE_EQ(points[0].high, points[0].step * 1.01);
  EXPECT_DOUBLE_EQ(points[1].high, points[1].step * 1.11);
  model.error.growth = 1;
  EXPECT_EQ(extrapolate(pipeline.schedule, pipeline.costs, model, {1 << 20}).points[0].low, 0);
}

TEST(ExpectedMaximum, IsThatOfAllDraws) {
  const std::vector<double> samples{1, 2, 5};
  EXPECT_DOUBLE_EQ(expected_maximum(samples, 1), 8.0 / 3);
  EXPECT_DOUBLE_EQ(expected_maximum(samples, 2), (1.0 * 1 + 2 * 3 + 5 * 5) / 9) << "of nine pairs: one has 1, three 2, five 5";
  EXPECT_NEAR(expected_maximum(samples, 100), 5, 1e-12);
  EXPECT_EQ(expected_maximum(std::vector<double>(7, 0.1), 3), 0.1) << "exactly";
}

TEST(Extrapolate, JitterOfOneActionFollowsTheNormalFormula) {
  // One rank, one microbatch, and only one F with a duration: the step is one log-normal sample.
  const auto schedule = table(Placement::single(1), 1, {"0F0 0B0"});
  Costs costs{{StageCost{100, 0, 0, 0}}, {}, {}, {}};
  costs.noise.jitter = 0.01;
  ScaleModel model;
  model.samples = 8192;
  const auto result = extrapolate(schedule, costs, model, {1, 2, 10, 100, 1000, 100000});
  ASSERT_EQ(result.samples, 8192);
  EXPECT_EQ(result.sampled_replicas, 1024);
  EXPECT_NEAR(result.mean, 100, 0.05);
  EXPECT_NEAR(result.deviation, 1, 0.03);
  // Expected maximum of 1, 2, 10, 100, 1000 and 100,000 standard normals (Harter 1961).
  const double known[] = {0, 0.564, 1.539, 2.508, 3.241, 4.385};
  for (std::size_t index = 0; index < 6; ++index) {
    EXPECT_NEAR(std::log(result.points[index].step / 100) / 0.01, known[index], 0.15) << index;
    EXPECT_EQ(result.points[index].persistent, 0);
  }
  EXPECT_LE(result.points[5].step, result.mean + result.deviation * std::sqrt(2 * std::log(100000))) << "a bound";
}

TEST(Extrapolate, GoesOnWhereTheSamplesEnd) {
  const Pipeline pipeline(4, 8);
  Costs costs = pipeline.costs;
  costs.noise.jitter = 0.02;
  ScaleModel model;
  model.spread = 0.02;
  const auto result = extrapolate(pipeline.schedule, costs, model, {128, 256, 257, 514});
  ASSERT_EQ(result.sampled_replicas, 256);
  const auto step = [&](std::size_t index) { return result.points[index].step; };
  EXPECT_GE(step(2), step(1));
  EXPECT_LT(step(2) - step(1), 0.05 * (step(1) - step(0))) << "one replica more is not a doubling";
  EXPECT_GT(step(3) - step(2), 0.2 * (step(1) - step(0)));
}

TEST(Extrapolate, NeverFallsWithMoreReplicas) {
  RandomRuns runs(12);
  for (int trial = 0; trial < 10; ++trial) {
    RandomRun run = runs.next();
    run.costs.noise.jitter = 0.02 * (trial % 2);
    ScaleModel model;
    model.spread = 0.02 * (trial % 3);
    model.samples = 256;
    double before = 0, slow = -run.schedule.microbatches;  // one replica may happen to be faster
    for (const auto& point : extrapolate(run.schedule, run.costs, model, powers).points) {
      EXPECT_GE(point.step, before) << point.replicas;
      EXPECT_GE(point.persistent, slow) << point.replicas;
      before = point.step;
      slow = point.persistent;
    }
  }
}

/// The mean over `clusters` of the slowest of `replicas`, each with its own ranks' speeds, computed by simulating all of them.
double simulated_slowest(const Pipeline& pipeline, double spread, int replicas, int clusters) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  double sum = 0;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    double slowest = 0;
    for (int replica = 0; replica < replicas; ++replica) {
      Costs costs = pipeline.costs;
      for (std::size_t rank = 0; rank < pipeline.schedule.ranks.size(); ++rank)
        costs.noise.slowdown.push_back(std::exp(spread * normal(random) - spread * spread / 2));
      costs.noise.seed = random();
      slowest = std::max(slowest, simulate(pipeline.schedule, costs, false).makespan);
    }
    sum += slowest;
  }
  return sum / clusters;
}

TEST(Extrapolate, SlowRanksComeOutAsWhenEveryReplicaIsSimulated) {
  const Pipeline pipeline(4, 8);
  ScaleModel model;
  model.spread = 0.05;
  const auto result = extrapolate(pipeline.schedule, pipeline.costs, model, {1, 16, 1024});
  ASSERT_LT(result.sampled_replicas, 1024) << "the last is by the formula";
  EXPECT_NEAR(result.points[0].step / simulated_slowest(pipeline, 0.05, 1, 2000), 1, 0.003);
  EXPECT_NEAR(result.points[1].step / simulated_slowest(pipeline, 0.05, 16, 200), 1, 0.005);
  EXPECT_NEAR(result.points[2].step / simulated_slowest(pipeline, 0.05, 1024, 8), 1, 0.02);
  for (const auto& point : result.points) EXPECT_DOUBLE_EQ(point.step, result.alone + point.persistent);
}

TEST(Extrapolate, JitterAveragesOutAndSlowRanksDoNot) {
  // The same relative noise of both kinds: over 96 actions jitter averages out, a rank's own speed does not.
  const Pipeline pipeline(4, 32);
  Costs costs = pipeline.costs;
  costs.noise.jitter = 0.05;
  ScaleModel model;
  model.spread = 0.05;
  const auto point = extrapolate(pipeline.schedule, costs, model, {1024}).points[0];
  EXPECT_GT(point.transient, 0);
  EXPECT_GT(point.persistent, 2 * point.transient);
  EXPECT_NEAR(point.step, simulate(pipeline.schedule, pipeline.costs, false).makespan + point.persistent + point.transient, 1e-9);
}

TEST(Extrapolate, AddsReductionOptimizerAndGoodput) {
  const auto schedule = table(Placement::single(2), 1, {"0F0 0I0 0W0", "1F0 1B0"});  // 6, see the reduction's test
  const Costs costs{{StageCost{}, StageCost{}}, {}, {}, {}};
  ScaleModel model;
  model.reduction = {{3, 1}, 1};
  model.optimizer = 0.5;
  model.failures = {1e6, 1, 10};
  const auto points = extrapolate(schedule, costs, model, {1, 2, 4}).points;
  EXPECT_DOUBLE_EQ(points[0].step, 6.5);
  EXPECT_EQ(points[0].exposed_stage, no_stage);
  EXPECT_DOUBLE_EQ(points[1].step, 9.5);
  EXPECT_DOUBLE_EQ(points[2].step, 6 + 4.5 + 0.5);
  EXPECT_EQ(points[2].exposed, 4.5);
  EXPECT_EQ(points[2].exposed_rank, RankId{0});
  EXPECT_EQ(points[2].exposed_stage, StageId{0});
  const auto useful = goodput(model.failures, 8, 11).useful;
  EXPECT_DOUBLE_EQ(points[2].goodput.useful, useful);
  EXPECT_DOUBLE_EQ(points[2].efficiency, 6.5 / 11 * useful);
}

TEST(Extrapolate, TheSameSeedGivesTheSame) {
  const Pipeline pipeline(4, 8);
  Costs costs = pipeline.costs;
  costs.noise.jitter = 0.02;
  ScaleModel model;
  model.spread = 0.02;
  const auto steps = [&](std::uint64_t seed) {
    costs.noise.seed = seed;
    std::vector<double> values;
    for (const auto& point : extrapolate(pipeline.schedule, costs, model, powers).points) values.push_back(point.step);
    return values;
  };
  EXPECT_EQ(steps(1), steps(1));
  EXPECT_NE(steps(1), steps(2));
}

TEST(Extrapolate, SaysWhatIsWrong) {
  const Pipeline pipeline(2, 2);
  ScaleModel model;
  expect_contains(error_of(ExitCode::internal, [&] { (void)extrapolate(pipeline.schedule, pipeline.costs, model, {0}); }), "0 replicas");
  model.spread = -1;
  expect_contains(error_of(ExitCode::internal, [&] { (void)extrapolate(pipeline.schedule, pipeline.costs, model, {1}); }), "spread -1");
}

}  // namespace
}  // namespace millrace::runtime
