#include "tests/training/schedules.hpp"

#include <gtest/gtest.h>

#include "tests/training/examined_run.hpp"
#include "tests/training/small_run.hpp"

// Whatever the schedule, a run has the bits of one rank: each in one process here and some in four; schedules_full_test.cpp has the rest.
namespace millrace::tests {
namespace {

std::vector<LayoutCase> cases() {
  std::vector<LayoutCase> all;
  bool turn = false;  // every other one in bf16 with a tied table
  for (const auto& schedule : schedule_cases()) {
    turn = !turn;
    all.push_back(schedule_run(schedule, turn ? "fp32" : "bf16", !turn, 1));
    const bool everywhere = schedule.name == "interleaved_zb" || schedule.name == "dualpipe_v" || schedule.name == "table_by_hand";
    if (everywhere) all.push_back(schedule_run(schedule, "bf16", true, 4));
  }
  return all;
}

class Schedules : public ::testing::TestWithParam<LayoutCase> {};

TEST_P(Schedules, HaveTheBitsOfOneRank) { expect_the_bits_of_one_rank(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Some, Schedules, ::testing::ValuesIn(cases()), [](const auto& one) { return name_of(one.param); });

TEST(VPlacement, HoldsATiedTableOnce) {
  const TemporaryFolder folder;
  write_small_texts(folder, "text");
  for (const std::string schedule : {"zb-v", "dualpipe-v"}) {
    run_examined(folder / "text",
                 {"model.layers=8", "model.tie_word_embeddings=true", "train.microbatches=8", "train.steps=1", "pipeline.chunks=2",
                  "pipeline.schedule=" + schedule},
                 [](actors::Pipeline& pipeline) {
                   const auto& plan = pipeline.ranks().front()->plan();
                   const auto& table = plan.parameters.front().name;
                   EXPECT_EQ(plan.channels().size(), plan.edges.size()) << "a table that is held once is not exchanged";
                   for (auto* rank : pipeline.ranks()) {
                     const auto* held = rank->compute().parameters().find(table);
                     ASSERT_EQ(held != nullptr, rank->id().value == 0);
                     if (held == nullptr) continue;
                     ASSERT_EQ(held->uses.size(), 2U);
                     EXPECT_EQ(held->uses[0].stage, runtime::StageId(0));
                     EXPECT_EQ(held->uses[1].stage, runtime::StageId(7));
                   }
                 });
  }
}

}  // namespace
}  // namespace millrace::tests
