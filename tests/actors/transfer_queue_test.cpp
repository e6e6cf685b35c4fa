#include "actors/rank/transfer_queue.hpp"

#include <gtest/gtest.h>

namespace millrace::actors {
namespace {

using Next = std::optional<std::size_t>;

TEST(TransferQueue, PostsAheadAndTakesInOrder) {
  TransferQueue queue;
  queue.begin({1, 2, 1, 1}, 2);
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
  TransferQueue queue;
  queue.begin({2}, 1);
  EXPECT_EQ(queue.to_post(), Next(0));
  queue.ended(0);
  EXPECT_EQ(queue.to_take(), std::nullopt);
  queue.ended(0);
  EXPECT_EQ(queue.to_take(), Next(0));
  queue.begin({}, 1);
  EXPECT_TRUE(queue.all_taken());
}

}  // namespace
}  // namespace millrace::actors
