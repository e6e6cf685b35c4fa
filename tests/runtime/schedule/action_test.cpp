#include "runtime/schedule/action.hpp"

#include <unordered_set>

#include "runtime/schedule/cell.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

TEST(Action, TextGoesBothWays) {
  for (const char* text : {"0F0", "3I2", "3W2", "3B1", "17F1023", "2147483647B0"}) EXPECT_EQ(to_string(parse_action(text)), text);
  EXPECT_EQ(parse_action("3I2"), (Action{StageId{3}, ActionKind::input_gradient, MicrobatchId{2}}));
  EXPECT_EQ(parse_action("3W2").kind, ActionKind::weight_gradient);
  EXPECT_EQ(fmt::format("{:>6}", parse_action("3B1")), "   3B1");
}

TEST(Action, BadTextNamesTheColumn) {
  struct Case {
    const char* text;
    const char* message;
  };
  const Case cases[] = {
      {"", "column 1: expected the stage"},
      {"F0", "column 1: expected the stage"},
      {"-1F0", "column 1: expected the stage"},
      {"3X2", "column 2: expected F, I, W"},
      {"3", "column 2: expected F, I, W"},
      {"3F", "column 3: expected the microbatch"},
      {"3F-2", "column 3: expected the microbatch"},
      {"3F2 ", "column 4: expected nothing"},
      {"99999999999F0", "column 1: expected the stage"},
      {"3SEND_F1", "column 2: expected F, I, W"},
  };
  for (const Case& bad : cases) expect_contains(error_of(ExitCode::config, [&] { (void)parse_action(bad.text); }), bad.message);
}

TEST(Action, APairIsAMatterOfEqualityNotOfText) {
  Action first = parse_action("0F5");
  first.overlaps_next = true;
  EXPECT_NE(first, parse_action("0F5"));
  EXPECT_EQ(to_string(first), "0F5");
}

TEST(Cell, GivesOneTwoOrNoActions) {
  EXPECT_EQ(text_of(parse_cell("3I2")), "3I2");
  EXPECT_EQ(text_of(parse_cell("(0F5;7B0)OVERLAP_F_B")), "0F5 7B0");
  EXPECT_TRUE(parse_cell("(0F5;7I0)OVERLAP_F_B")[0].overlaps_next);
  EXPECT_FALSE(parse_cell("(0F5;7I0)OVERLAP_F_B")[1].overlaps_next);
  for (const char* text :
       {"", "2SEND_F1", "3RECV_F1", "0SEND_B12", "1RECV_B0", "1UNSHARD", "1RESHARD", "1REDUCE_GRAD", "0OPT", "12CKPT_SNAP"})
    EXPECT_TRUE(parse_cell(text).empty()) << text;
  for (const char* text : {"2SEND_F", "SEND_F1", "2SEND_F1x", "2SEND_G1", "UNSHARD", "1OPTS", "(0F5;7B0)", "(0F5)OVERLAP_F_B",
                           "(0B5;7F0)OVERLAP_F_B", "(0F5;7W0)OVERLAP_F_B", "(0F5;7B5)OVERLAP_F_B", "(", "(;)OVERLAP_F_B", ";"})
    EXPECT_FALSE(error_of(ExitCode::config, [text] { (void)parse_cell(text); }).empty()) << text;
}

TEST(Cell, PrintsPairsAsOne) {
  std::vector<Action> list = parse_cell("(0F5;7B0)OVERLAP_F_B");
  list.push_back(parse_action("0F6"));
  EXPECT_EQ(print_row(list), "(0F5;7B0)OVERLAP_F_B,0F6");
}

TEST(Ids, AreComparableHashableAndPrintable) {
  EXPECT_LT(StageId{1}, StageId{2});
  EXPECT_EQ(fmt::format("{} {}", RankId{3}, MicrobatchId{7}), "3 7");
  const std::unordered_set<StageId> stages{StageId{1}, StageId{1}, StageId{2}};
  EXPECT_EQ(stages.size(), 2u);
}

}  // namespace
}  // namespace millrace::runtime
