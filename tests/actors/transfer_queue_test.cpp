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
  TransferQueue queue({2, 8}, 64);
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
  TransferQueue queue({1, 1}, 64);
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
  TransferQueue queue({2, 8}, 64);
  queue.append(reduction(0, 1, false));
  queue.append(reduction(1));
  EXPECT_EQ(queue.to_post(), std::nullopt);
  queue.enable(0);
  EXPECT_EQ(queue.to_post(), Next(0));
  EXPECT_EQ(queue.to_post(), Next(1));
}

// Both kinds are in one order, and each has its own bound.
TEST(TransferQueue, BoundsEachKind) {
  TransferQueue queue({1, 2}, 64);
  queue.append(gather(0));
  queue.append(gather(1));
  queue.append(reduction(0));
  queue.append(reduction(1));
  queue.append(gather(2));
  for (std::size_t position = 0; position < 3; ++position) EXPECT_EQ(queue.to_post(), Next(position));
  EXPECT_EQ(queue.to_post(), std::nullopt) << "a reduction is under way";
  queue.ended(2);
  EXPECT_EQ(queue.to_take(), std::nullopt) << "the gathers before it have not ended";
  queue.ended(0);
  queue.ended(1);
  EXPECT_EQ(queue.to_take(), Next(0));
  EXPECT_EQ(queue.to_take(), Next(1));
  EXPECT_EQ(queue.to_post(), std::nullopt);
  EXPECT_EQ(queue.to_take(), Next(2));
  EXPECT_EQ(queue.to_post(), Next(3));
  EXPECT_EQ(queue.to_post(), Next(4));
  EXPECT_EQ(queue.at(3).kind, TransferKind::reduction);
  EXPECT_EQ(queue.taken(), 3U);
}

TEST(TransferQueue, BoundsAllExchanges) {
  TransferQueue queue({2, 8}, 4);
  queue.append(reduction(0, 3));
  queue.append(reduction(1, 2));
  queue.append(reduction(2, 9));
  EXPECT_EQ(queue.to_post(), Next(0));
  EXPECT_EQ(queue.to_post(), std::nullopt) << "together they have five";
  for (int i = 0; i < 3; ++i) queue.ended(0);
  EXPECT_EQ(queue.to_take(), Next(0));
  EXPECT_EQ(queue.to_post(), Next(1));
  EXPECT_EQ(queue.to_post(), std::nullopt);
  for (int i = 0; i < 2; ++i) queue.ended(1);
  EXPECT_EQ(queue.to_take(), Next(1));
  EXPECT_EQ(queue.to_post(), Next(2)) << "a transfer that is larger goes alone";
}

// Places for arrivals take turns, also over the end of a step: one is free when its turn comes.
TEST(TransferQueue, GivesArrivalsPlacesInTurn) {
  TransferQueue queue({2, 1}, 64);
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
