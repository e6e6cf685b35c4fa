#include "actors/rank/transfer_queue.hpp"

#include <gtest/gtest.h>

namespace millrace::actors {
namespace {

using Next = std::optional<std::size_t>;

Transfer reduction(std::size_t index, int exchanges = 1, bool enabled = true) {
  return {.kind = TransferKind::reduction, .index = index, .exchanges = exchanges, .enabled = enabled};
}
Transfer gather(std::size_t index) { return {.kind = TransferKind::gather, .index = index}; }

TEST(TransferQueue, PostsAheadAndTakesInOrder) {
  TransferQueue queue({2, 8});
  for (const auto& transfer : {reduction(0), reduction(1, 2), reduction(2), reduction(3)}) queue.append(transfer);
  EXPECT_EQ(queue.to_post(), Next(0));
  EXPECT_EQ(queue.to_post(), Next(1));
  EXPECT_EQ(queue.to_post(), std::nullopt) << "two are under way";
  EXPECT_EQ(queue.to_take(), std::nullopt);
  queue.ended(1);
  queue.ended(1);
  EXPECT_EQ(queue.to_take(), std::nullopt) << "the first one has not ended";
  queue.ended(0);
  EXPECT_EQ(queue.to_take(), Next(0));
  EXPECT_EQ(queue.to_take(), Next(1));
  EXPECT_EQ(queue.to_take(), std::nullopt);
  EXPECT_FALSE(queue.all_taken());
  EXPECT_EQ(queue.to_post(), Next(2));
  EXPECT_EQ(queue.to_post(), Next(3));
  queue.ended(2);
  queue.ended(3);
  EXPECT_EQ(queue.to_take(), Next(2));
  EXPECT_EQ(queue.to_take(), Next(3));
  EXPECT_TRUE(queue.all_taken());
  EXPECT_EQ(queue.to_post(), std::nullopt);
}

TEST(TransferQueue, WaitsForEveryExchangeOfATransfer) {
  TransferQueue queue({1, 1});
  queue.append(reduction(0, 2));
  EXPECT_EQ(queue.to_post(), Next(0));
  queue.ended(0);
  EXPECT_EQ(queue.to_take(), std::nullopt);
  queue.ended(0);
  EXPECT_EQ(queue.to_take(), Next(0));
  EXPECT_TRUE(queue.all_taken());
}

// A later transfer does not overtake one whose gradients are not complete, since all members post in one order.
TEST(TransferQueue, PostsNothingBeforeItIsComplete) {
  TransferQueue queue({2, 8});
  queue.append(reduction(0, 1, false));
  queue.append(reduction(1));
  EXPECT_EQ(queue.to_post(), std::nullopt);
  queue.enable(0);
  EXPECT_EQ(queue.to_post(), Next(0));
  EXPECT_EQ(queue.to_post(), Next(1));
}

// Gathers of an update and the reduction of the next step are in one order, and never under way together.
TEST(TransferQueue, KeepsTheKindsApart) {
  TransferQueue queue({2, 3});
  queue.append(gather(0));
  queue.append(gather(1));
  queue.append(reduction(0));
  EXPECT_EQ(queue.to_post(), Next(0));
  EXPECT_EQ(queue.to_post(), Next(1));
  EXPECT_EQ(queue.to_post(), std::nullopt) << "gathers are under way";
  queue.ended(0);
  EXPECT_EQ(queue.to_take(), Next(0));
  EXPECT_EQ(queue.to_post(), std::nullopt);
  queue.ended(1);
  EXPECT_EQ(queue.to_take(), Next(1));
  EXPECT_EQ(queue.to_post(), Next(2));
  EXPECT_EQ(queue.at(2).kind, TransferKind::reduction);
  EXPECT_EQ(queue.taken(), 2U);
}

// Places for arrivals take turns, also over the end of a step: one is free when its turn comes.
TEST(TransferQueue, GivesArrivalsPlacesInTurn) {
  TransferQueue queue({2, 1});
  for (std::size_t step = 0; step < 3; ++step) {
    for (std::size_t index = 0; index < 3; ++index) {
      const std::size_t position = queue.append(reduction(index));
      EXPECT_EQ(position, index) << "positions begin anew";
      EXPECT_EQ(queue.at(position).arrivals, (3 * step + index) % 2);
    }
    for (std::size_t index = 0; index < 3; ++index) {
      EXPECT_EQ(queue.to_post(), Next(index));
      queue.ended(index);
      EXPECT_EQ(queue.to_take(), Next(index));
    }
  }
}

}  // namespace
}  // namespace millrace::actors
