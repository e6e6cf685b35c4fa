#include "runtime/schedule/table.hpp"

#include <gtest/gtest.h>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(parse_table(text, "own.csv"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::config);
    return error.what();
  }
  return "";
}

TEST(Table, ReadsBackEveryBuiltInSchedule) {
  for (const auto& schedule : {gpipe(3, 4), one_f_one_b(4, 6), looped_bfs(2, 3, 4), zb_h1(4, 8)}) {
    const auto back = parse_table(print_table(schedule), "own.csv");
    EXPECT_EQ(back.ranks, schedule.ranks) << schedule.name;
    EXPECT_EQ(back.microbatches, schedule.microbatches);
    for (int stage = 0; stage < schedule.placement.stages(); ++stage)
      EXPECT_EQ(back.placement.rank_of(StageId(stage)), schedule.placement.rank_of(StageId(stage)));
  }
}

TEST(Table, PassesOverRemarksBubblesAndTransfers) {
  const auto schedule = parse_table("#millrace-schedule 1\n\n0F0,0SEND_F0, ,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,,\n", "own.csv");
  ASSERT_EQ(schedule.ranks.size(), 2U);
  EXPECT_EQ(schedule.ranks[0].size(), 2U);
  EXPECT_EQ(schedule.ranks[1].size(), 2U);
}

TEST(Table, NamesWhatIsWrong) {
  EXPECT_NE(error_of("0F0,0X0\n").find("own.csv:1: cell 2"), std::string::npos);
  EXPECT_NE(error_of("# nothing\n").find("no line"), std::string::npos);
  EXPECT_NE(error_of("0F0,0B0,2F0,2B0\n").find("stage 1 is missing"), std::string::npos);
  EXPECT_NE(error_of("0F0\n0B0\n").find("rank 1"), std::string::npos);
  EXPECT_FALSE(error_of("0F0\n1F0,1B0\n").empty()) << "0B0 is missing";
  EXPECT_FALSE(error_of("0B0,0F0\n").empty()) << "B before F";
}

}  // namespace
}  // namespace millrace::runtime
