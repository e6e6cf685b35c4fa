#include "runtime/schedule/global_order.hpp"

#include <gtest/gtest.h>

#include <set>

namespace millrace::runtime {
namespace {

TEST(GlobalOrder, DealsMicrobatchesAndParts) {
  const GlobalOrder order(3);
  EXPECT_EQ(order.microbatch(2, 4), 14);
  EXPECT_EQ(order.copy(14), 2);
  EXPECT_EQ(order.ordinal(14), 4);
  // Copy 0 has microbatches 0, 3 and 6 of the step's seven.
  EXPECT_EQ(order.count(0, 7), 3);
  EXPECT_EQ(order.count(1, 7), 2);
  EXPECT_EQ(order.count(2, 7), 2);
  EXPECT_EQ(order.count(2, 1), 0);
  // Copy 1 has parts 1 and 4 of the six, in this order.
  EXPECT_EQ(order.set(1, 6), 0);
  EXPECT_EQ(order.set(4, 6), 1);
  EXPECT_EQ(order.set(10, 6), 1);
}

TEST(GlobalOrder, GivesEveryPartToOneCopyIfTheirNumberDividesTheParts) {
  for (const int copies : {1, 2, 3, 4, 6}) {
    const GlobalOrder order(copies);
    std::set<std::pair<int, int>> sums;  // copy and set
    std::vector<std::pair<int, int>> of_part(12, {-1, -1});
    for (std::int64_t m = 0; m < 48; ++m) {
      const std::pair<int, int> sum{order.copy(m), order.set(m, 12)};
      auto& known = of_part.at(static_cast<std::size_t>(m % 12));
      if (m < 12) known = sum;
      EXPECT_EQ(known, sum) << copies << " copies, microbatch " << m;
      sums.insert(sum);
      EXPECT_LT(sum.second, 12 / copies);
    }
    EXPECT_EQ(sums.size(), 12U);
  }
}

TEST(RankMicrobatches, NumberThoseOfOneOrSeveralCopies) {
  const RankMicrobatches one(GlobalOrder(4), {2, 2});
  EXPECT_EQ(one.number(0), 2);
  EXPECT_EQ(one.number(3), 14);
  EXPECT_EQ(one.before(14), 3);
  EXPECT_EQ(one.before(15), 4);
  EXPECT_EQ(one.before(2), 0);
  EXPECT_EQ(one.before(0), 0);
  const RankMicrobatches two(GlobalOrder(4), {3, 2});  // of two directions
  for (std::int64_t n = 0; n < 20; ++n) {
    EXPECT_EQ(two.number(n), n / 2 * 4 + 2 + n % 2);
    EXPECT_EQ(two.before(two.number(n)), n);
  }
  EXPECT_EQ(two.before(8), 4);
  const RankMicrobatches all;
  EXPECT_EQ(all.number(7), 7);
  EXPECT_EQ(all.before(7), 7);
}

}  // namespace
}  // namespace millrace::runtime
