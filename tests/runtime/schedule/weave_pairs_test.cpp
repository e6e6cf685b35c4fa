// Neighbouring actions become pairs whose segments a rank weaves.

#include "runtime/schedule/weave_pairs.hpp"

#include "runtime/schedule/cell.hpp"
#include "runtime/schedule/validate.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

std::vector<StageShape> shapes_of(const Schedule& schedule, bool exchanges) {
  StageShape shape;
  if (exchanges)
    for (const ActionKind kind : {ActionKind::forward, ActionKind::input_gradient, ActionKind::backward})
      shape.of(kind) = {{-1, 1}, {0, 0}};
  return std::vector(static_cast<std::size_t>(schedule.placement.stages()), shape);
}

TEST(WeavePairs, PairForwardsWithTheBackwardsBesideThem) {
  const Schedule schedule = one_f_one_b(2, 5);
  const Schedule woven = with_woven_neighbours(schedule, shapes_of(schedule, true));
  check_schedule(woven);
  EXPECT_EQ(print_row(woven.ranks[1]),
            "1F0,(1B0;1F1)OVERLAP,(1B1;1F2)OVERLAP,(1B2;1F3)OVERLAP,(1B3;1F4)OVERLAP,1B4");  // F and B of one microbatch never are
  EXPECT_EQ(without_pairs(woven).ranks, schedule.ranks);
}

TEST(WeavePairs, AreLiveAndKeepTheList) {
  int paired = 0;
  for (const ScheduleRequest& request : every_request({1, 2, 4}, 2)) {
    const Schedule schedule = make_schedule(request);
    const Schedule woven = with_woven_neighbours(schedule, shapes_of(schedule, true));
    SCOPED_TRACE(name_of(request));
    ASSERT_NO_THROW(check_schedule(woven));
    EXPECT_EQ(without_pairs(woven).ranks, without_pairs(schedule).ranks);
    EXPECT_EQ(with_woven_neighbours(schedule, shapes_of(schedule, false)).ranks, schedule.ranks);  // nothing to hide, nothing to weave
    for (std::size_t rank = 0; rank < woven.ranks.size(); ++rank)
      for (std::size_t index = 0; index < woven.ranks[rank].size(); ++index) {
        const Action& action = woven.ranks[rank][index];
        EXPECT_GE(action.overlaps_next, schedule.ranks[rank][index].overlaps_next);
        paired += action.overlaps_next;
      }
  }
  EXPECT_GT(paired, 300);
}

TEST(WeavePairs, LeaveOutWhatWouldDeadlock) {
  // Rank 0 has the second forward beside the backward that rank 1 would run beside that very forward.
  const Schedule schedule = table(Placement::single(2), 2, {"0F0 0B0 0F1 0B1", "1F0 1B0 1F1 1B1"});
  const Schedule woven = with_woven_neighbours(schedule, shapes_of(schedule, true));
  check_schedule(woven);
  EXPECT_EQ(print_row(woven.ranks[0]), "0F0,(0B0;0F1)OVERLAP,0B1");
  EXPECT_EQ(print_row(woven.ranks[1]), "1F0,1B0,1F1,1B1");
}

TEST(WeavePairs, AreCellsOfATable) {
  for (const char* cell : {"(0F5;7B0)OVERLAP_F_B", "(0F5;0F6)OVERLAP", "(3B1;0F6)OVERLAP", "(3I1;2I2)OVERLAP"})
    EXPECT_EQ(print_row(parse_cell(cell)), cell);
}

}  // namespace
}  // namespace millrace::runtime
