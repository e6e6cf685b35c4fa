#include "runtime/schedule/ledger.hpp"

#include <algorithm>

#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

TEST(Ledger, StashesOfOneFOneB) {
  const Ledger ledger = make_ledger(one_f_one_b(4, 8));
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(ledger.stages[static_cast<std::size_t>(stage)].stash_input, 4 - stage);
    EXPECT_EQ(ledger.stages[static_cast<std::size_t>(stage)].stash_weight, 4 - stage);
    EXPECT_EQ(ledger.stages[static_cast<std::size_t>(stage)].handoff, 0);
  }
}

TEST(Ledger, SplitBackwardHoldsWeightsOperandsLonger) {
  // ZB-H1: peak (P−r)·M_B + r·M_W, so P stashes for W on every rank, P−r of them also for I, and r+1 hand-offs while I runs.
  const Ledger ledger = make_ledger(zb_h1(4, 12));
  for (int stage = 0; stage < 4; ++stage) {
    const StashSlots& slots = ledger.stages[static_cast<std::size_t>(stage)];
    EXPECT_EQ(slots.stash_input, 4 - stage);
    EXPECT_EQ(slots.stash_weight, 4);
    EXPECT_EQ(slots.handoff, stage + 1);
  }
}

TEST(Ledger, GpipeAndBreadthFirstHoldEverything) {
  for (const StashSlots& slots : make_ledger(gpipe(3, 5)).stages) EXPECT_EQ(slots.stash_input, 5);
  for (const StashSlots& slots : make_ledger(looped_bfs(2, 2, 5)).stages) EXPECT_EQ(slots.stash_weight, 5);
}

TEST(Ledger, FewMicrobatchesNeedFewSlots) {
  for (const StashSlots& slots : make_ledger(one_f_one_b(8, 2)).stages) EXPECT_LE(slots.stash_input, 2);
  for (int depth : make_ledger(one_f_one_b(8, 1)).depths) EXPECT_EQ(depth, 1);
}

TEST(Ledger, MixedBackwardsKeepTheRingInOrder) {
  // W of microbatch 0 comes after B of 1: two slots stay occupied although only one microbatch is alive, since rings free their
  // slots in order.
  const Schedule mixed = table(Placement::single(1), 3, {"0F0 0F1 0I0 0B1 0F2 0W0 0B2"});
  const StashSlots slots = make_ledger(mixed).stages[0];
  EXPECT_EQ(slots.stash_input, 2);
  EXPECT_EQ(slots.stash_weight, 3);
  EXPECT_EQ(slots.handoff, 1);
}

TEST(Ledger, DepthsByCausality) {
  // gpipe: a producer cannot know that a slot is free before the backward, and the last stage never learns anything about
  // gradients.
  for (int depth : make_ledger(gpipe(3, 6)).depths) EXPECT_EQ(depth, 6);
  // 1f1b, activation edge s → s+1: when F(s,m) starts, B(s,m−(P−s)) is over, and B(s+1) of that microbatch came before it.
  const Ledger ledger = make_ledger(one_f_one_b(4, 8));
  EXPECT_EQ(std::vector<int>(ledger.depths.begin(), ledger.depths.begin() + 3), (std::vector<int>{4, 3, 2}));
  // gradient edge s+1 → s: B(s+1,m) follows F(s,m), which follows B(s,m−(P−s)).
  EXPECT_EQ(std::vector<int>(ledger.depths.begin() + 3, ledger.depths.end()), (std::vector<int>{4, 3, 2}));
}

TEST(Ledger, OneRankWithChunksHandsOverWithinItself) {
  const Ledger ledger = make_ledger(looped_bfs(1, 2, 4));
  ASSERT_EQ(ledger.depths.size(), 2u);
  EXPECT_EQ(ledger.depths[0], 4);  // all forwards of chunk 0 come before the first use
  EXPECT_EQ(ledger.depths[1], 4);
}

TEST(Ledger, ForwardOnlyNeedsNoStashAndFreesAfterUse) {
  const Ledger ledger = make_ledger(forward_only(Placement::single(3), 5));
  for (const StashSlots& slots : ledger.stages) EXPECT_EQ(slots.stash_input + slots.stash_weight + slots.handoff, 0);
  // The producer never receives anything back, so only a ring for all boundaries avoids waiting.
  EXPECT_EQ(ledger.depths[0], 5);
}

}  // namespace
}  // namespace millrace::runtime
