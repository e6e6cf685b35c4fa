#include "runtime/schedule/replicate.hpp"

#include <gtest/gtest.h>

#include "runtime/schedule/validate.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

std::vector<Schedule> some_schedules() {
  std::vector<Schedule> all{gpipe(1, 3), one_f_one_b(3, 5), interleaved(2, 2, 4), zb_h1(2, 4),
                            zb_v(2, 4),  dualpipe_v(2, 4),  dualpipe(2, 6),       forward_only(Placement::loop(2, 2), 5)};
  return all;
}

TEST(CopiesOf, HaveStagesAndRanksOfTheirOwn) {
  const Placement one = Placement::mirror(4), all = Placement::copies_of(one, 3);
  EXPECT_EQ(all.name(), "mirror");
  EXPECT_EQ(all.replicas(), 6);
  EXPECT_EQ(all.copies(), 3);
  EXPECT_EQ(all.directions(), 2);
  EXPECT_EQ(all.ranks(), 12);
  EXPECT_EQ(all.positions(), 4);
  EXPECT_EQ(all.stages(), 24);
  EXPECT_EQ(all.model_stages(), 4);
  for (int stage = 0; stage < 24; ++stage) {
    const StageId id{stage};
    EXPECT_EQ(all.rank_of(id).value, stage / 8 * 4 + one.rank_of(StageId{stage % 8}).value);
    EXPECT_EQ(all.replica_of(id), stage / 4);
    EXPECT_EQ(all.chunk_of(id), one.chunk_of(StageId{stage % 8}));
    EXPECT_EQ(all.next(id).has_value(), one.next(StageId{stage % 8}).has_value());
  }
  EXPECT_EQ(all.copy_of(RankId{9}), 2);
  EXPECT_EQ(all.position_of(RankId{9}), 1);
  const Placement back = all.one_copy();
  EXPECT_EQ(back.replicas(), 2);
  EXPECT_EQ(back.copies(), 1);
  for (int stage = 0; stage < 8; ++stage) EXPECT_EQ(back.rank_of(StageId{stage}), one.rank_of(StageId{stage}));
}

TEST(Replicate, EveryCopyRunsTheScheduleOnEveryCopiesThMicrobatch) {
  const Schedule all = replicate(one_f_one_b(2, 2), 2);
  EXPECT_EQ(all.microbatches, 4);
  EXPECT_EQ(text_of(all.ranks[0]), "0F0 0F2 0B0 0B2");
  EXPECT_EQ(text_of(all.ranks[1]), "1F0 1B0 1F2 1B2");
  EXPECT_EQ(text_of(all.ranks[2]), "2F1 2F3 2B1 2B3");
  EXPECT_EQ(text_of(all.ranks[3]), "3F1 3B1 3F3 3B3");
}

TEST(Replicate, IsWellFormedLiveAndHasTheLedgerOfOne) {
  for (const Schedule& one : some_schedules()) {
    for (const int copies : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} copies of {}", copies, one.name));
      const Schedule all = replicate(one, copies);
      const Ledger ledger = replicate(make_ledger(one), one.placement, copies);
      ASSERT_NO_THROW(check_schedule(all, ledger.depths));
      const Ledger whole = make_ledger(all);
      EXPECT_EQ(ledger.depths, whole.depths);
      ASSERT_EQ(ledger.stages.size(), whole.stages.size());
      for (std::size_t stage = 0; stage < whole.stages.size(); ++stage) {
        EXPECT_EQ(ledger.stages[stage].stash_input, whole.stages[stage].stash_input);
        EXPECT_EQ(ledger.stages[stage].stash_weight, whole.stages[stage].stash_weight);
        EXPECT_EQ(ledger.stages[stage].handoff, whole.stages[stage].handoff);
      }
      const Schedule back = one_copy(all);
      EXPECT_EQ(back.ranks, one.ranks);
      EXPECT_EQ(back.microbatches, one.microbatches);
      EXPECT_EQ(back.placement.replicas(), one.placement.replicas());
    }
  }
}

// An evaluation has any number of microbatches; some copies then have one more than others, or none.
TEST(Replicate, ForwardsAloneShareAnyNumberOfMicrobatches) {
  for (const Placement& one : {Placement::single(2), Placement::loop(2, 2), Placement::v_shape(2), Placement::mirror(2)}) {
    for (const int microbatches : {1, 2, 3, 7, 20}) {
      SCOPED_TRACE(fmt::format("{}, {} microbatches", one.name(), microbatches));
      const Schedule schedule = forward_only(Placement::copies_of(one, 3), microbatches);
      const std::vector<int> depths(edges_of(schedule.placement).size(), 1);
      EXPECT_NO_THROW(check_schedule(schedule, depths));
    }
  }
}

}  // namespace
}  // namespace millrace::runtime
