#include "runtime/schedule/action.hpp"

#include <unordered_set>

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
      {"", "column 1: wanted the stage"},          {"F0", "column 1: wanted the stage"}, {"-1F0", "column 1: wanted the stage"},
      {"3X2", "column 2: wanted F, I, W"},         {"3", "column 2: wanted F, I, W"},    {"3F", "column 3: wanted the microbatch"},
      {"3F-2", "column 3: wanted the microbatch"}, {"3F2 ", "column 4: wanted nothing"}, {"99999999999F0", "column 1: wanted the stage"},
      {"3SEND_F1", "column 2: wanted F, I, W"},
  };
  for (const Case& bad : cases) expect_contains(error_of(ExitCode::config, [&] { (void)parse_action(bad.text); }), bad.message);
}

TEST(Ids, AreComparableHashableAndPrintable) {
  EXPECT_LT(StageId{1}, StageId{2});
  EXPECT_EQ(fmt::format("{} {}", RankId{3}, MicrobatchId{7}), "3 7");
  const std::unordered_set<StageId> stages{StageId{1}, StageId{1}, StageId{2}};
  EXPECT_EQ(stages.size(), 2u);
}

}  // namespace
}  // namespace millrace::runtime
