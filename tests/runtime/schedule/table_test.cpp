#include "runtime/schedule/table.hpp"

#include <gtest/gtest.h>

#include "kernels/base/check.hpp"
#include "runtime/schedule/hash.hpp"
#include "runtime/schedule/lower.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

std::string refusal(const std::string& text) {
  return error_of(ExitCode::config, [&] { static_cast<void>(parse_table(text, "own.csv")); });
}

void expect_same(const Schedule& back, const Schedule& schedule) {
  EXPECT_EQ(back.ranks, schedule.ranks);
  EXPECT_EQ(back.microbatches, schedule.microbatches);
  EXPECT_EQ(back.placement.name(), schedule.placement.name());
  EXPECT_EQ(content_hash(back), content_hash(schedule));
}

TEST(Table, EveryScheduleComesBackFromBothForms) {
  for (const ScheduleRequest& request : one_of_each(4, 8)) {
    SCOPED_TRACE(name_of(request));
    const Schedule schedule = make_schedule(request);
    expect_same(parse_table(print_table(schedule), "own.csv"), schedule);
    expect_same(parse_table(print_full_table(schedule), "own.csv"), schedule);
    if (schedule.placement.replicas() > 1) continue;  // only the header distinguishes its two chains
    expect_same(parse_table(print_table(schedule, TableHeader::without), "own.csv"), schedule);
    expect_same(parse_table(print_full_table(schedule, TableHeader::without), "own.csv"), schedule);
  }
}

TEST(Table, HeaderDescribesTheSchedule) {
  EXPECT_EQ(print_table(zb_v(1, 1)), fmt::format("#millrace-schedule 1\n#P 1\n#V 2\n#M 1\n#placement V\n#hash {:016x}\n"
                                                 "0F0,1F0,1I0,1W0,0I0,0W0\n",
                                                 content_hash(zb_v(1, 1))));
  EXPECT_EQ(print_table(gpipe(2, 1), TableHeader::without), "0F0,0B0\n1F0,1B0\n");
  EXPECT_EQ(parse_table("# Placement of my own\n# P 7\n#placement LOOP\n0F0,1F0,1B0,0B0\n", "own.csv").placement.name(), "loop");
  EXPECT_EQ(parse_table("#placement by-hand\n0F0,0B0\n1F0,1B0\n", "own.csv").placement.name(), "by-hand");
  EXPECT_EQ(parse_table("0F0,0B0\n1F0,1B0\n", "own.csv").name, "own.csv");
}

TEST(Table, HeaderIsCheckedAgainstTheCells) {
  const std::string cells = "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n";
  expect_contains(refusal("#placment single\n" + cells), "own.csv:1: #placment, did you mean #placement?");
  expect_contains(refusal("#microbatches 3\n" + cells), "own.csv:1: #microbatches, expected #M");
  expect_contains(refusal("#ranks 3\n" + cells), "own.csv:1: #ranks, expected #P");
  expect_contains(refusal("#chunks 3\n" + cells), "own.csv:1: #chunks, expected #V");
  expect_contains(refusal("#placement single mine\n" + cells), "own.csv:1: \"mine\" after #placement single");
  expect_contains(refusal("#P 3\n" + cells), "own.csv: #P says 3, the table has 2");
  expect_contains(refusal("#V 2\n" + cells), "own.csv: #V says 2, the table has 1");
  expect_contains(refusal("#M 4\n" + cells), "own.csv: #M says 4, the table has 2");
  expect_contains(refusal("#millrace-schedule 2\n" + cells), "own.csv:1: a table of version 2, expected version 1");
  expect_contains(refusal("#placement V\n" + cells), "#placement v of 2 stages on 2 ranks, expected 4 stages");
  expect_contains(refusal("#placement zig-zag\n" + cells), "own.csv:1: #placement \"zig-zag\", expected one of single, loop, v, mirror");
  expect_contains(refusal("\n#M many\n" + cells), "own.csv:2: #M \"many\", expected a decimal number");
  const std::string found = fmt::format("{:016x}", content_hash(gpipe(2, 2)));
  expect_contains(refusal("#hash 00000000000000ff\n" + cells), "#hash says 00000000000000ff, the table has " + found);
  EXPECT_NO_THROW(static_cast<void>(parse_table("#hash " + found + "\n" + cells, "own.csv")));
  expect_contains(refusal("#placement V\n0F0,0B0,2F0,2B0\n1F0,1B0,3F0,3B0\n"), "#placement v, but its stages are on ranks 0 1 0 1");
}

TEST(Table, PassesOverRemarksBubblesAndTransfers) {
  const auto schedule = parse_table(
      "#millrace-schedule 1\n\n0UNSHARD,0F0,0SEND_F0, ,0RECV_B0,0B0,0RESHARD,0REDUCE_GRAD,0OPT,0CKPT_SNAP\n1RECV_F0,1F0,1B0,,\n",
      "own.csv");
  ASSERT_EQ(schedule.ranks.size(), 2U);
  EXPECT_EQ(text_of(schedule.ranks[0]), "0F0 0B0");
  EXPECT_EQ(text_of(schedule.ranks[1]), "1F0 1B0");
}

TEST(Table, ReadsWhatPyTorchWrites) {
  // Two ranks, V placement, in the format of torch.distributed.pipelining: pairs in one cell, no transfer at the bend.
  const auto schedule = parse_table(
      "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,3B2,(3F3;0B1)OVERLAP_F_B,3B3,0I2,0W2,0I3,0W3\r\n"
      ",1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,2B2,1B2,2I3,1I3,2W3,1W3\r\n",
      "torch.csv");
  EXPECT_EQ(schedule.placement.name(), "v");
  EXPECT_EQ(schedule.ranks, dualpipe_v(2, 4).ranks);
}

TEST(Table, NamesWhatIsWrong) {
  expect_contains(refusal("0F0,0X0\n"), "own.csv:1: cell 2");
  expect_contains(refusal("0F0,0SEND_X0\n"), "own.csv:1: cell 2");
  expect_contains(refusal("0F0,(0F1;0F0)OVERLAP_F_B\n"), "expected F first and B or I second");
  expect_contains(refusal("0F0,(0F0;0B0)OVERLAP_F_B\n"), "both halves of an overlapped pair are of microbatch 0");
  expect_contains(refusal("0F0,(0F1;0B0)\n"), "expected an overlapped pair like (0F5;7B0)OVERLAP_F_B");
  expect_contains(refusal("# nothing\n"), "no row of a rank");
  expect_contains(refusal("0F0,0B0,2F0,2B0\n"), "stage 1 is missing");
  expect_contains(refusal("0F0\n0B0\n"), "rank 1");
  expect_contains(refusal("0F0\n1F0,1B0\n"), "stage 0 on rank 0 has no B");
  expect_contains(refusal("0B0,0F0\n"), "comes before its forward");
  expect_contains(refusal("0F2000000000,0B2000000000\n"), "is of microbatch 2000000000, but the table has only 2 cells");
}

TEST(Table, CellsAreCheckedBeforeTheSchedule) {
  EXPECT_NO_THROW(check_cells("0F0\n1F0,1B0\n", "own.csv"));  // can be parsed, but is not a schedule
  expect_contains(error_of(ExitCode::config, [] { check_cells("0F0,0X0\n", "own.csv"); }), "own.csv:1: cell 2");
  expect_contains(error_of(ExitCode::config, [] { check_cells("#M two\n0F0\n", "own.csv"); }), "own.csv:1");
  expect_contains(error_of(ExitCode::config, [] { check_cells("# nothing\n", "own.csv"); }), "no row of a rank");
}

TEST(Table, FullTablesKeepTheirTransfers) {
  for (const ScheduleRequest& request : one_of_each(4, 8)) {
    SCOPED_TRACE(name_of(request));
    const Schedule schedule = make_schedule(request);
    const auto table = parse_full_table(print_full_table(schedule), schedule);
    ASSERT_TRUE(table);
    EXPECT_EQ(*table, full_table(schedule));
    EXPECT_FALSE(parse_full_table(print_table(schedule), schedule));
  }
  const std::string text = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n";
  const Schedule schedule = parse_table(text, "own.csv");
  EXPECT_TRUE(parse_full_table(text, schedule));
  const auto beyond = [&](const std::string& cell) {
    const std::string more = "0F0," + cell + ",0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n";
    return error_of(ExitCode::config, [&] { static_cast<void>(parse_full_table(more, schedule)); });
  };
  expect_contains(beyond("0SEND_F7"), "own.csv:1: 0SEND_F7 is of microbatch 7, the table has 1");
  expect_contains(beyond("0SEND_F99999999999"), "own.csv:1: cell 2");
}

TEST(Lower, OneFOneBByHand) {
  EXPECT_EQ(print_full_table(one_f_one_b(2, 3), TableHeader::without),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0F2,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1RECV_F2,1B1,1SEND_B1,1F2,1B2,1SEND_B2\n");
}

TEST(Lower, TheBendNeedsNoMessage) {
  EXPECT_EQ(print_full_table(zb_v(1, 2), TableHeader::without), print_table(zb_v(1, 2), TableHeader::without));
  const std::string text = print_full_table(zb_v(2, 4), TableHeader::without);
  EXPECT_EQ(text.find("1SEND_F"), std::string::npos);
  EXPECT_EQ(text.find("2RECV_F"), std::string::npos);
  EXPECT_NE(text.find("2SEND_F"), std::string::npos);
}

TEST(Lower, PairsSendAfterBothHalves) {
  const std::string text = print_full_table(dualpipe_v(2, 4), TableHeader::without);
  expect_contains(text, "(0F3;3B1)OVERLAP_F_B,0SEND_F3,3SEND_B1,");
  expect_contains(text, "(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,2SEND_F3,1SEND_B1,");  // the bend is within rank 1
}

TEST(Lower, EveryPairOfRanksAgreesOnTheOrder) {
  for (const ScheduleRequest& request : one_of_each(4, 8)) {
    const auto rows = lower(make_schedule(request));
    const Placement placement = placement_of(request);
    for (std::size_t from = 0; from < rows.size(); ++from) {
      for (std::size_t to = 0; to < rows.size(); ++to) {
        // What `from` sends to `to`, and what `to` receives from `from`, both named by the receiving stage.
        const auto crossing = [&](std::size_t rank, const char* verb) {
          std::vector<std::string> names;
          for (const std::string& cell : rows[rank]) {
            const std::size_t at = cell.find(verb);
            if (at == std::string::npos) continue;
            StageId stage{std::stoi(cell)};
            const bool forward = cell[at + 5] == 'F';
            const auto other = forward == (verb[0] == 'S') ? placement.next(stage) : placement.previous(stage);
            if (placement.rank_of(*other).index() != (rank == from ? to : from)) continue;
            if (verb[0] == 'S') stage = *other;
            names.push_back(fmt::format("{}{}", stage, cell.substr(at + 5)));
          }
          return names;
        };
        EXPECT_EQ(crossing(from, "SEND_"), crossing(to, "RECV_")) << request.name;
      }
    }
  }
}

TEST(Lower, ADeadScheduleSaysWhereItStops) {
  const Schedule dead = table(Placement::single(2), 2, {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"});
  expect_contains(error_of(ExitCode::config, [&] { static_cast<void>(lower(dead)); }), "rank 0 is stuck at 0B0 (action 1 of 4)");
}

}  // namespace
}  // namespace millrace::runtime
