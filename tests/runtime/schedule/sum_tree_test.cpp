#include "runtime/schedule/sum_tree.hpp"

#include <gtest/gtest.h>

#include <string>

#include "kernels/base/check.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

/// Adds by writing down what is added: the order of the additions in brackets.
void add(std::vector<std::string>& sums, const std::vector<PartAddition>& additions) {
  for (const auto& [into, from] : additions) {
    auto& sum = sums.at(static_cast<std::size_t>(into));
    sum = "(" + sum + "+" + sums.at(static_cast<std::size_t>(from)) + ")";
  }
}

std::vector<std::string> parts_of(int parts) {
  std::vector<std::string> sums;
  for (int part = 0; part < parts; ++part) sums.push_back(std::to_string(part));
  return sums;
}

std::string sum_of(int parts) {
  auto sums = parts_of(parts);
  add(sums, sum_tree(parts));
  return sums.front();
}

TEST(SumTree, IsBalancedInBitReversedOrder) {
  EXPECT_EQ(sum_of(1), "0");
  EXPECT_EQ(sum_of(2), "(0+1)");
  EXPECT_EQ(sum_of(3), "((0+1)+2)");
  EXPECT_EQ(sum_of(4), "((0+2)+(1+3))");
  EXPECT_EQ(sum_of(6), "(((0+2)+4)+((1+3)+5))");
  EXPECT_EQ(sum_of(8), "(((0+4)+(2+6))+((1+5)+(3+7)))");
}

// The promise of data parallelism: whoever adds, the brackets are the same.
TEST(SumTree, IsTheSameForEveryNumberOfCopiesThatDividesTheParts) {
  for (int parts = 1; parts <= 24; ++parts) {
    const std::string expected = sum_of(parts);
    for (int copies = 1; copies <= parts; ++copies) {
      if (parts % copies != 0) continue;
      const auto tree = divide_sum_tree(parts, copies);
      ASSERT_EQ(tree.own.size(), static_cast<std::size_t>(copies));
      auto sums = parts_of(parts);
      for (int copy = 0; copy < copies; ++copy) {
        for (const auto& [into, from] : tree.own[static_cast<std::size_t>(copy)]) {
          EXPECT_EQ(into % copies, copy);
          EXPECT_EQ(from % copies, copy);
        }
        add(sums, tree.own[static_cast<std::size_t>(copy)]);
      }
      add(sums, tree.across);
      EXPECT_EQ(sums.front(), expected) << parts << " parts, " << copies << " copies";
    }
  }
}

TEST(SumTree, CopiesSendOneSumEachIfTheirNumberIsAPowerOfTwo) {
  for (const int copies : {1, 2, 4, 8}) {
    const auto tree = divide_sum_tree(24, copies);
    for (int copy = 0; copy < copies; ++copy) EXPECT_EQ(tree.sums[static_cast<std::size_t>(copy)], std::vector<int>{copy});
    EXPECT_EQ(tree.across.size(), static_cast<std::size_t>(copies) - 1);
  }
  const auto three = divide_sum_tree(6, 3);
  EXPECT_EQ(three.sums[1], (std::vector<int>{1, 4}));
  // The additions of one copy are the same as those of another, but for the numbers.
  for (const int copies : {2, 3, 6, 12}) {
    const auto tree = divide_sum_tree(24, copies);
    for (int copy = 1; copy < copies; ++copy) {
      auto own = tree.own[static_cast<std::size_t>(copy)];
      for (auto& [into, from] : own) into -= copy, from -= copy;
      EXPECT_EQ(own, tree.own.front()) << copies << " copies";
    }
  }
}

TEST(SumTree, RefusesCopiesThatDoNotDivideTheParts) {
  tests::expect_error([] { (void)divide_sum_tree(6, 4); }, ExitCode::internal, {"6 parts for 4 copies"});
}

}  // namespace
}  // namespace millrace::runtime
