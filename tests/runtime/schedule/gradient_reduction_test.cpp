#include "runtime/schedule/simulator/gradient_reduction.hpp"

#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

TEST(GradientReduction, TakesTheTimeOfARing) {
  const GradientReduction ring{{}, 10, 0.5};
  EXPECT_DOUBLE_EQ(ring.duration(400, 1), 0);
  EXPECT_DOUBLE_EQ(ring.duration(400, 2), 2 * 0.5 + 40);  // 2 · 1/2 of the bytes
  EXPECT_DOUBLE_EQ(ring.duration(400, 4), 6 * 0.5 + 60);  // 2 · 3/4
}

TEST(GradientReduction, IsExposedBeyondTheLastActionByHand) {
  // F 1, I 1, W 1, B 2 on both. Rank 1: 0…1 waits, F 1…2, B 2…4. Rank 0: F 0…1, I 4…5, W 5…6.
  const auto schedule = table(Placement::single(2), 1, {"0F0 0I0 0W0", "1F0 1B0"});
  const Costs costs{{StageCost{}, StageCost{}}, {}, {}, {}};
  const auto simulation = simulate(schedule, costs, false);
  ASSERT_EQ(simulation.makespan, 6);
  const auto ranks = reduce_gradients(schedule, simulation, {{3, 1}, 1}, 2);
  EXPECT_EQ(ranks[0].compute_end, 6);
  EXPECT_EQ(ranks[0].end, 9);
  EXPECT_EQ(ranks[0].exposed(), 3);
  EXPECT_EQ(ranks[0].last, StageId{0});
  EXPECT_EQ(ranks[1].compute_end, 4);
  EXPECT_EQ(ranks[1].end, 5) << "which the step does not wait for";
  for (const auto& rank : reduce_gradients(schedule, simulation, {{3, 1}, 1}, 1)) EXPECT_EQ(rank.exposed(), 0) << "one replica";
}

TEST(GradientReduction, StagesOfARankGoOneAfterAnother) {
  // One rank, two chunks of equal cost: F 0 to 2, then stage 1 until 4 and stage 0 until 6.
  const auto schedule = table(Placement::loop(1, 2), 1, {"0F0 1F0 1B0 0B0"});
  const Costs costs{{StageCost{}, StageCost{}}, {}, {}, {}};
  const auto simulation = simulate(schedule, costs, false);
  const auto end = [&](double first, double second) {
    const auto rank = reduce_gradients(schedule, simulation, {{first, second}, 1}, 2).front();
    EXPECT_EQ(rank.last, StageId{0});
    return rank.end;
  };
  EXPECT_EQ(end(1, 2), 7) << "stage 1 is hidden behind stage 0's B";
  EXPECT_EQ(end(1, 5), 10) << "the lane is free at 9";
  EXPECT_EQ(end(0, 0), 6);
}

TEST(GradientReduction, WAtTheEndOfTheListHidesNothing) {
  // The same work: the first list ends its stage 1 early, the second leaves both W's to the end.
  const Costs costs{{StageCost{}, StageCost{}}, {}, {}, {}};
  const auto exposed = [&](const std::string& list) {
    const auto schedule = table(Placement::loop(1, 2), 1, {list});
    return reduce_gradients(schedule, simulate(schedule, costs, false), {{1, 2}, 1}, 2).front().exposed();
  };
  EXPECT_EQ(exposed("0F0 1F0 1I0 1W0 0I0 0W0"), 1);
  EXPECT_EQ(exposed("0F0 1F0 1I0 0I0 0W0 1W0"), 2);
}

TEST(GradientReduction, WantsASizeForEachStage) {
  const auto schedule = one_f_one_b(2, 2);
  const auto simulation = simulate(schedule, {{StageCost{}, StageCost{}}, {}, {}, {}}, false);
  expect_contains(error_of(ExitCode::internal, [&] { (void)reduce_gradients(schedule, simulation, {{1}, 1}, 2); }), "1 sizes of gradients");
}

}  // namespace
}  // namespace millrace::runtime
