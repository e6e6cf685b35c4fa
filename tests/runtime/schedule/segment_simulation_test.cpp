#include "runtime/schedule/simulator/segment_simulation.hpp"

#include <algorithm>

#include "runtime/schedule/replicate.hpp"
#include "runtime/schedule/weave_pairs.hpp"
#include "tests/runtime/schedule/random_costs.hpp"

namespace millrace::runtime {
namespace {

/// F, I and B in segments that each await the exchange that the one before has posted, with these fractions of the compute.
StageExchanges chained(const std::vector<double>& fractions, double exchange) {
  StageExchanges stage;
  for (const ActionKind kind : {ActionKind::forward, ActionKind::input_gradient, ActionKind::backward}) {
    auto& shapes = stage.shape.of(kind);
    shapes.assign(fractions.size(), SegmentShape{-1, 1});
    for (std::size_t segment = 1; segment < shapes.size(); ++segment) shapes[segment].awaits = static_cast<int>(segment) - 1;
    shapes.back().posts = 0;
    stage.of(kind) = {fractions, std::vector<double>(fractions.size() - 1, exchange)};
  }
  return stage;
}

double sum(const RankTime& time) {
  return time.busy + time.activation + time.gradient + time.link + time.slot + time.exchange + time.launch + time.drain;
}

TEST(SegmentSimulation, OfOneSegmentAnActionIsThatOfActions) {
  RandomRuns runs(11);
  for (int round = 0; round < 300; ++round) {
    RandomRun run = runs.next();
    run.schedule = without_pairs(run.schedule);
    const Simulation expected = simulate(run.schedule, run.costs);
    run.costs.exchanges.resize(run.costs.stages.size());
    const Simulation found = simulate(run.schedule, run.costs);
    ASSERT_EQ(found.begin, expected.begin) << run.schedule.name << ", round " << round;
    ASSERT_EQ(found.end, expected.end);
    EXPECT_EQ(found.makespan, expected.makespan);
    EXPECT_EQ(found.span_idle, expected.span_idle);
    for (std::size_t rank = 0; rank < found.ranks.size(); ++rank) {
      EXPECT_EQ(found.ranks[rank].busy, expected.ranks[rank].busy);
      EXPECT_DOUBLE_EQ(found.ranks[rank].slot, expected.ranks[rank].slot);
      EXPECT_NEAR(found.ranks[rank].link, expected.ranks[rank].link, 1e-9);
      EXPECT_NEAR(found.ranks[rank].launch, expected.ranks[rank].launch, 1e-9);
      EXPECT_EQ(found.ranks[rank].exchange, 0);
      EXPECT_NEAR(sum(found.ranks[rank]), found.makespan, 1e-9);
    }
  }
}

TEST(SegmentSimulation, ExchangesThatNothingHidesAreWaits) {
  const Schedule schedule = table(Placement::single(1), 2, {"0F0 0B0 0F1 0B1"});
  Costs costs;
  costs.stages = {{4, 4, 4, 8}};
  costs.exchanges = {chained({0.25, 0.5, 0.25}, 3)};
  const Simulation found = simulate(schedule, costs);
  // F: 1, 3, 2, 3, 1; B: 2, 3, 4, 3, 2.
  EXPECT_EQ(found.end, (std::vector<double>{10, 24, 34, 48}));
  EXPECT_EQ(found.ranks[0].busy, 24);
  EXPECT_EQ(found.ranks[0].exchange, 24);
}

TEST(SegmentSimulation, AWovenPairComputesWhileTheRowsOfTheOtherAreUnderWay) {
  Schedule schedule = table(Placement::single(1), 2, {"0F0 0F1 0B0 0B1"});
  Costs costs;
  costs.stages = {{3, 3, 3, 3}};
  costs.exchanges = {chained({1.0 / 3, 1.0 / 3, 1.0 / 3}, 1)};
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).makespan, 20);
  schedule = with_woven_neighbours(schedule, shapes_of(costs.exchanges));
  const Simulation found = simulate(schedule, costs);
  EXPECT_DOUBLE_EQ(found.makespan, 12);
  EXPECT_DOUBLE_EQ(found.ranks[0].exchange, 0);
  EXPECT_DOUBLE_EQ(found.end[0], 5);  // a0 b0 a1 b1 a2
  EXPECT_DOUBLE_EQ(found.begin[1], 1);
}

// The exchanges of a rank take turns, so two woven actions gain nothing where the link is full.
TEST(SegmentSimulation, ExchangesOfARankTakeTurns) {
  Schedule schedule = table(Placement::single(1), 2, {"0F0 0F1 0B0 0B1"});
  Costs costs;
  costs.stages = {{2, 2, 2, 2}};
  costs.exchanges = {chained({0.5, 0.5}, 10)};
  schedule = with_woven_neighbours(schedule, shapes_of(costs.exchanges));
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).makespan, 2 * (1 + 10 + 10 + 1));
}

// An output is there after its own last segment, not after that of the action that it is woven with.
TEST(SegmentSimulation, TheHalvesOfAPairHaveTimesOfTheirOwn) {
  Schedule schedule = table(Placement::single(2), 2, {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"});
  Costs costs;
  costs.stages = {{2, 2, 2, 2}, {2, 2, 2, 2}};
  costs.exchanges = {chained({0.5, 0.5}, 1), StageExchanges{}};
  schedule.ranks[0][0].overlaps_next = true;
  const Simulation found = simulate(schedule, costs);
  EXPECT_DOUBLE_EQ(found.end[found.at(RankId(0), 0)], 3);
  EXPECT_DOUBLE_EQ(found.begin[found.at(RankId(1), 0)], 3);
  EXPECT_DOUBLE_EQ(found.end[found.at(RankId(0), 1)], 4);
}

TEST(SegmentSimulation, CopiesOfAPipelineAreAlike) {
  RandomRuns runs(3);
  for (int round = 0; round < 40; ++round) {
    RandomRun run = runs.next();
    run.costs.noise.jitter = 0;
    if (round % 2 == 0) run.costs.exchanges.assign(run.costs.stages.size(), chained({0.5, 0.25, 0.25}, 0.3));
    const Simulation one = simulate(run.schedule, run.costs);
    const Simulation all = simulate(replicate(run.schedule, 3), replicate(run.costs, run.schedule.placement, 3));
    EXPECT_DOUBLE_EQ(all.makespan, one.makespan);
    ASSERT_EQ(all.actions(), 3 * one.actions());
    for (std::size_t action = 0; action < all.actions(); ++action) EXPECT_EQ(all.end[action], one.end[action % one.actions()]);
  }
}

std::vector<std::vector<RankId>> groups_of_copies(const Schedule& schedule, int copies) {
  const int ranks = schedule.placement.ranks() / copies;
  std::vector<std::vector<RankId>> members;
  for (int rank = 0; rank < schedule.placement.ranks(); ++rank) {
    members.emplace_back();
    for (int copy = 0; copy < copies; ++copy) members.back().emplace_back(copy * ranks + rank % ranks);
  }
  return members;
}

TEST(SegmentSimulation, MembersThatAreAlikeAreAsOne) {
  for (const auto& request : one_of_each(2, 4)) {
    const Schedule schedule = without_pairs(make_schedule(request));
    Costs costs = unit_costs(schedule);
    costs.exchanges.assign(costs.stages.size(), chained({0.5, 0.25, 0.25}, 0.4));
    const Simulation one = simulate(schedule, costs);
    const Schedule copies = replicate(schedule, 3);
    Costs all = replicate(costs, schedule.placement, 3);
    all.members = groups_of_copies(copies, 3);
    const Simulation found = simulate(copies, all);
    for (std::size_t action = 0; action < found.actions(); ++action)
      ASSERT_DOUBLE_EQ(found.end[action], one.end[action % one.actions()]) << schedule.name;
  }
}

TEST(SegmentSimulation, MembersWaitForTheSlowest) {
  const Schedule schedule = replicate(table(Placement::single(1), 1, {"0F0 0B0"}), 2);
  Costs costs;
  costs.stages = {{2, 1, 1, 2}, {6, 1, 1, 2}};
  costs.exchanges.assign(2, chained({0.5, 0.5}, 1));
  costs.members = groups_of_copies(schedule, 2);
  const Simulation found = simulate(schedule, costs);
  // Forward segments of 1 and 3 ms: the rows of both are in after 4 ms. The backwards of the second copy begin 2 ms later.
  EXPECT_DOUBLE_EQ(found.end[found.at(RankId(0), 0)], 5);
  EXPECT_DOUBLE_EQ(found.end[found.at(RankId(1), 0)], 7);
  EXPECT_DOUBLE_EQ(found.end[found.at(RankId(0), 1)], 10);
  EXPECT_DOUBLE_EQ(found.ranks[0].exchange, 3 + 3);
  EXPECT_DOUBLE_EQ(found.ranks[1].exchange, 1 + 1);
  EXPECT_NEAR(sum(found.ranks[0]), found.makespan, 1e-9);
}

TEST(SegmentSimulation, NoScheduleGainsTimeByExchangesOrLosesMoreThanTheyTake) {
  for (const auto& request : one_of_each(4, 8)) {
    const Schedule schedule = without_pairs(make_schedule(request));
    Costs costs = unit_costs(schedule);
    const double without = simulate(schedule, costs).makespan;
    costs.exchanges.assign(costs.stages.size(), chained({0.5, 0.25, 0.25}, 0.2));
    const Simulation off = simulate(schedule, costs);
    EXPECT_GT(off.makespan, without) << schedule.name;
    double all = 0;
    for (const auto& rank : off.ranks) {
      all += rank.exchange;
      EXPECT_NEAR(sum(rank), off.makespan, 1e-9);
    }
    EXPECT_LE(off.makespan, without + all) << schedule.name;
  }
}

}  // namespace
}  // namespace millrace::runtime
