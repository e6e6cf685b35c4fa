#include "runtime/schedule/simulator/memory_peak.hpp"

#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

std::vector<StageBytes> alike(const Schedule& schedule, const StageBytes& bytes) {
  return std::vector<StageBytes>(static_cast<std::size_t>(schedule.placement.stages()), bytes);
}

TEST(MemoryPeak, OneFOneBHoldsAsManyAsRanksFollow) {
  const Schedule schedule = one_f_one_b(4, 8);
  for (int rank = 0; rank < 4; ++rank) {
    const MemoryPeak peak = memory_peak(schedule, RankId{rank}, alike(schedule, {100, 0, 7, {}}));
    EXPECT_EQ(peak.bytes, 100 * (4 - rank) + 7);
    EXPECT_EQ(peak.action, 3 - rank);  // the last forward of the warm-up
    ASSERT_EQ(peak.stages.size(), 1u);
    EXPECT_EQ(peak.stages[0].whole, 4 - rank);
    EXPECT_EQ(peak.fixed, 7);
  }
}

TEST(MemoryPeak, SplitBackwardKeepsTheWeightsShare) {
  // ZB-H1: peak (P − r)·M_B + r·M_W.
  const Schedule schedule = zb_h1(4, 12);
  for (int rank = 0; rank < 4; ++rank) {
    const MemoryPeak peak = memory_peak(schedule, RankId{rank}, alike(schedule, {100, 30, 0, {}}));
    EXPECT_EQ(peak.bytes, 100 * (4 - rank) + 30 * rank);
    EXPECT_EQ(peak.stages[0].weight_only, rank);
  }
}

TEST(MemoryPeak, WorkspaceCanDecideWhereThePeakIs) {
  StageBytes bytes{100, 0, 0, {}};
  bytes.workspace[static_cast<std::size_t>(ActionKind::backward)] = 50;
  const Schedule schedule = gpipe(1, 3);
  const MemoryPeak peak = memory_peak(schedule, RankId{0}, {bytes});
  EXPECT_EQ(peak.bytes, 350);
  EXPECT_EQ(peak.action, 3);
  EXPECT_EQ(peak.workspace, 50);
  EXPECT_EQ(to_string(peak, schedule, RankId{0}),
            "rank 0: 350 B at 0B0 (action 3): fixed 0 B, workspace 50 B, stage 0 300 B (3 microbatches)");
}

TEST(MemoryPeak, APairTakesBothBeforeItGivesBack) {
  Schedule schedule = table(Placement::single(1), 2, {"0F0 0F1 0B0 0B1"});
  EXPECT_EQ(memory_peak(schedule, RankId{0}, {{10, 0, 0, {1, 0, 0, 2}}}).bytes, 22);
  schedule.ranks[0][1].overlaps_next = true;
  const MemoryPeak peak = memory_peak(schedule, RankId{0}, {{10, 0, 0, {1, 0, 0, 2}}});
  EXPECT_EQ(peak.bytes, 23);
  EXPECT_EQ(peak.action, 1);
}

TEST(MemoryPeak, EvaluationHoldsOneMicrobatch) {
  const Schedule schedule = forward_only(Placement::single(2), 5);
  EXPECT_EQ(memory_peak(schedule, RankId{0}, alike(schedule, {10, 0, 3, {}})).bytes, 13);
}

TEST(MemoryPeak, PartsAddUpOnEverySchedule) {
  for (const ScheduleRequest& request : one_of_each(4, 8)) {
    const Schedule schedule = make_schedule(request);
    for (int rank = 0; rank < 4; ++rank) {
      const MemoryPeak peak = memory_peak(schedule, RankId{rank}, alike(schedule, {100, 100, 5, {4, 3, 2, 1}}));
      std::int64_t sum = peak.fixed + peak.workspace;
      int held = 0;
      for (const MemoryPeak::Stage& stage : peak.stages) {
        sum += stage.bytes;
        held += stage.whole + stage.weight_only;
      }
      EXPECT_EQ(sum, peak.bytes);
      const double units = held * schedule.placement.replicas() / static_cast<double>(peak.stages.size());
      EXPECT_EQ(units, microbatches_held(schedule, RankId{rank})) << name_of(request);
    }
  }
}

}  // namespace
}  // namespace millrace::runtime
