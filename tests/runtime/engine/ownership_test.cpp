#include "runtime/engine/ownership.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

TEST(Pieces, BeginAnewWithEachPart) {
  const Pieces whole(2 * piece_elements + 5, 1);
  EXPECT_EQ(whole.range(1), (ElementRange{piece_elements, piece_elements}));
  EXPECT_EQ(whole.range(2), (ElementRange{2 * piece_elements, 5}));
  const Pieces experts(3 * (piece_elements + 7), 3);
  EXPECT_EQ(experts.of_part(), 2);
  EXPECT_EQ(experts.range(2), (ElementRange{piece_elements + 7, piece_elements}));
  EXPECT_EQ(experts.range(3), (ElementRange{2 * piece_elements + 7, 7}));
}

TEST(Pieces, OfARangeAreWhole) {
  const Pieces experts(3 * (piece_elements + 7), 3);
  const auto run = [&](const ElementRange& elements) {
    const auto [first, end] = experts.of(elements);
    return std::pair(first, end);
  };
  EXPECT_EQ(run({0, 3 * (piece_elements + 7)}), std::pair(std::int64_t{0}, std::int64_t{6}));
  EXPECT_EQ(run({piece_elements + 7, piece_elements + 7}), std::pair(std::int64_t{2}, std::int64_t{4}));
  EXPECT_EQ(run({}), std::pair(std::int64_t{0}, std::int64_t{0}));
  tests::expect_error([&] { static_cast<void>(experts.of({0, 100})); }, ExitCode::internal, {"element 100", "within a piece"});
}

TEST(Divide, GivesEachMemberARunOfUnits) {
  std::vector<std::int64_t> loads{0, 0, 0};
  const std::vector<DividedTensor> tensors{{10, 4}, {3, 4}, {11, 4}};
  const auto own = divide(tensors, loads);
  // 24 elements in units of 4, 4, 2 | 3 | 4, 4, 3.
  EXPECT_EQ(own[0][0], (ElementRange{0, 8}));
  EXPECT_EQ(own[0][1], (ElementRange{8, 2}));
  EXPECT_EQ(own[1][1], (ElementRange{0, 3}));
  EXPECT_EQ(own[2][1], (ElementRange{0, 4}));
  EXPECT_EQ(own[2][2], (ElementRange{4, 7}));
  EXPECT_EQ(loads, (std::vector<std::int64_t>{8, 9, 7}));
}

TEST(Divide, GivesMoreToThoseWhoHaveLess) {
  std::vector<std::int64_t> loads{0, 0};
  const std::vector<DividedTensor> matrix{{100, 100}};
  std::vector<int> owners;
  for (int i = 0; i < 6; ++i) owners.push_back(divide(matrix, loads).front()[0].empty() ? 1 : 0);
  EXPECT_EQ(loads, (std::vector<std::int64_t>{300, 300})) << "six whole matrices, three for each";
}

TEST(Divide, DoesNotCountWhatIsNotUpdated) {
  std::vector<std::int64_t> loads{0, 0};
  const std::vector<DividedTensor> tensors{{90, 1, false}, {10, 1}};
  const auto own = divide(tensors, loads);
  EXPECT_EQ(own[0][0], (ElementRange{0, 90}));
  EXPECT_EQ(own[1][0], (ElementRange{0, 5}));
  EXPECT_EQ(own[1][1], (ElementRange{5, 5}));
  EXPECT_EQ(loads, (std::vector<std::int64_t>{5, 5}));
}

// Every element belongs to one member, runs are in the order of the members and end between units, and no member has more than its share
// by more than a unit.
TEST(Divide, LeavesOutNothing) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 500; ++trial) {
    const auto members = 1 + random() % 6;
    std::vector<DividedTensor> tensors;
    std::int64_t all = 0, largest = 0;
    for (unsigned count = 1 + random() % 6; count > 0; --count) {
      tensors.push_back({static_cast<std::int64_t>(1 + random() % 90), static_cast<std::int64_t>(1 + random() % 20)});
      all += tensors.back().elements;
      largest = std::max(largest, std::min(tensors.back().unit, tensors.back().elements));
    }
    std::vector<std::int64_t> loads(members, 0);
    const auto own = divide(tensors, loads);
    std::size_t at = 0;
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      std::int64_t next = 0;
      for (std::size_t member = 0; member < members; ++member) {
        const ElementRange& range = own[tensor][member];
        if (range.empty()) continue;
        EXPECT_EQ(range.first, next);
        EXPECT_EQ(range.first % tensors[tensor].unit, 0);
        EXPECT_GE(member, at) << "runs are in order";
        at = member;
        next = range.end();
      }
      EXPECT_EQ(next, tensors[tensor].elements);
    }
    for (const std::int64_t load : loads) EXPECT_LE(load, all / static_cast<std::int64_t>(members) + 1 + largest);
  }
}

}  // namespace
}  // namespace millrace::runtime
