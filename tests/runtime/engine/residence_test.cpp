// When a rank has the weights of which stage.

#include "runtime/engine/residence.hpp"

#include "runtime/engine/rank_engine.hpp"
#include "runtime/schedule/ledger.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

/// One rank with four stages and two microbatches: 0F0 0F1 1F0 … 3F1, then 3B0 3B1 2B0 … 0B1.
struct FourStages {
  Schedule schedule = looped_bfs(1, 4, 2);
  Ledger ledger = make_ledger(schedule);
  RankPlan plan = make_rank_plan(schedule, RankId{0}, ledger.stages);
};

WeightSlots slots_of(int stages, int slots) {
  std::vector<WeightSlots::Of> all;
  for (int stage = 0; stage < stages; ++stage) all.push_back({StageId{stage}, stage % slots});
  return WeightSlots(all);
}

TEST(WeightSlots, GoToTheStageThatTheListNeedsNext) {
  const FourStages rank;
  ASSERT_EQ(rank.plan.entries.size(), 16U);
  WeightSlots slots = slots_of(4, 2);
  const std::vector<Residence> first{{StageId{0}, 0, 2, 0},  {StageId{1}, 2, 4, 0},    {StageId{2}, 4, 12, 2},
                                     {StageId{3}, 6, 10, 4}, {StageId{1}, 12, 14, 10}, {StageId{0}, 14, 16, 12}};
  EXPECT_EQ(slots.run(rank.plan), first);
  const std::vector<int> needed{1, 1, 2, 2, 3, 3, 4, 4, 4, 4, 3, 3, 5, 5, 6, 6};
  EXPECT_EQ(residences_needed(rank.plan, first), needed);

  // The list left stages 0 and 1, which are not gathered again unless they have changed.
  const std::vector<Residence> second{{StageId{2}, 4, 12, 2}, {StageId{3}, 6, 10, 4}, {StageId{1}, 12, 14, 10}, {StageId{0}, 14, 16, 12}};
  EXPECT_EQ(slots.run(rank.plan), second);
  EXPECT_EQ(residences_needed(rank.plan, second).front(), 0);
  slots.clear();
  EXPECT_EQ(slots.run(rank.plan), first);
}

TEST(WeightSlots, MayBeOneOrAsManyAsStages) {
  const FourStages rank;
  WeightSlots one = slots_of(4, 1);
  const auto often = one.run(rank.plan);
  ASSERT_EQ(often.size(), 7U) << "the last stage computes forward and backward at once";
  for (std::size_t i = 1; i < often.size(); ++i) {
    EXPECT_EQ(often[i].begin, often[i - 1].end);
    EXPECT_EQ(often[i].free, often[i].begin) << "nothing is gathered ahead";
  }
  WeightSlots four = slots_of(4, 4);
  EXPECT_EQ(four.run(rank.plan).size(), 4U);
  EXPECT_TRUE(four.run(rank.plan).empty());
  EXPECT_TRUE(WeightSlots({}).run(rank.plan).empty()) << "nothing is divided";
}

TEST(WeightSlots, HoldBackEntriesUntilTheirWeightsAreHere) {
  const FourStages rank;
  WeightSlots slots = slots_of(4, 2);
  RankEngine engine({.rank = RankId{0}, .edges = edges_of(rank.schedule.placement), .depths = rank.ledger.depths, .issue_ahead = 1});
  engine.will_gather(rank.plan, slots.run(rank.plan));
  EXPECT_TRUE(engine.start(rank.plan, StepId{1}).issues.empty());
  engine.batch_ready(MicrobatchId{0});
  EXPECT_TRUE(engine.batch_ready(MicrobatchId{1}).issues.empty());
  EXPECT_EQ(engine.wait().reason, WaitReason::weights);
  ASSERT_EQ(engine.gathered().issues.size(), 1U);
  EXPECT_EQ(engine.entry_finished(parse_action("0F0")).issues.size(), 1U);
  EXPECT_TRUE(engine.entry_finished(parse_action("0F1")).issues.empty()) << "stage 1 is not here";
  EXPECT_EQ(engine.gathered().issues.size(), 1U);
  for (int more = 2; more < 6; ++more) engine.gathered();
  expect_contains(error_of(ExitCode::internal, [&] { engine.gathered(); }), "more often than its list needs");
}

}  // namespace
}  // namespace millrace::runtime
