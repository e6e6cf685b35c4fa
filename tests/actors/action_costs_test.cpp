#include "actors/rank/action_costs.hpp"

#include <gtest/gtest.h>

namespace millrace::actors {
namespace {

using runtime::Action;
using runtime::ActionKind;
using runtime::MicrobatchId;
using runtime::RankId;
using runtime::StageId;

TEST(ActionCosts, AddsUpByStageAndKind) {
  const auto placement = runtime::Placement::by_hand(2, {RankId(0), RankId(1), RankId(0), RankId(1)});
  ActionCosts costs(placement, RankId(1), 1);
  EXPECT_TRUE(costs.sums().empty());
  const auto add = [&](std::int64_t step, int stage, ActionKind kind, std::int64_t device, std::int64_t host) {
    costs.add(step, Action{StageId(stage), kind, MicrobatchId(0)}, 0, device, host);
  };
  add(0, 1, ActionKind::forward, 1000, 1000);  // warms up
  add(1, 3, ActionKind::backward, 50, 7);
  add(1, 1, ActionKind::forward, 20, 3);
  add(2, 1, ActionKind::forward, 22, 4);
  const auto sums = costs.sums();
  ASSERT_EQ(sums.size(), 2U);
  EXPECT_EQ(sums[0].stage, 1);
  EXPECT_EQ(sums[0].kind, ActionKind::forward);
  EXPECT_EQ(sums[0].count, 2);
  EXPECT_EQ(sums[0].device, 42);
  EXPECT_EQ(sums[0].host, 7);
  EXPECT_EQ(sums[1].stage, 3);
  EXPECT_EQ(sums[1].kind, ActionKind::backward);
  EXPECT_EQ(sums[1].count, 1);
  EXPECT_EQ(sums[1].device, 50);
  EXPECT_EQ(sums[1].host, 7);
}

}  // namespace
}  // namespace millrace::actors
