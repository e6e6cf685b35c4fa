#include "kernels/shift_left.hpp"

#include <vector>

#include "tests/kernels/fixture.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::kernels::testing {
namespace {

std::vector<int> shifted(const ExecutionContext& context, const std::vector<int>& values, const std::vector<int>& documents,
                         const ShiftOptions& options) {
  const auto count = static_cast<std::int64_t>(values.size());
  Data x(DType::i32, {count}), segments(DType::i32, {count}), y(DType::i32, {count});
  for (std::int64_t i = 0; i < count; ++i) {
    x.set(i, values[static_cast<std::size_t>(i)]);
    segments.set(i, documents[static_cast<std::size_t>(i)]);
  }
  shift_left(context, *x, *segments, options, *y);
  wait();
  std::vector<int> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(static_cast<int>(y.get(i)));
  return result;
}

/// The table of MaxText's rule for modules of multi-token prediction, and the two rules for a distance of two.
TEST(ShiftLeft, StopsAtTheEndOfADocument) {
  ThreadTeam team(1);
  const std::vector<int> values{1, 2, 3, 4, 5, 6}, documents{1, 1, 1, 2, 2, 0};
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = implementation == Implementation::fast ? fast(team) : ExecutionContext(team, implementation);
    EXPECT_EQ(shifted(context, values, documents, {.sequence = 6}), (std::vector<int>{2, 3, 0, 5, 0, 0}));
    EXPECT_EQ(shifted(context, values, documents, {.sequence = 6, .distance = 2, .filling = -1}),
              (std::vector<int>{3, -1, -1, -1, -1, -1}));
    EXPECT_EQ(shifted(context, values, documents, {.sequence = 6, .distance = 2, .filling = -1, .last_border_only = true}),
              (std::vector<int>{3, -1, 5, -1, -1, -1}));
    EXPECT_EQ(shifted(context, values, {1, 1, 1, 1, 1, 1}, {.sequence = 3}), (std::vector<int>{2, 3, 0, 5, 6, 0}));
    EXPECT_EQ(shifted(context, values, {1, 1, 1, 1, 1, 1}, {.sequence = 6, .distance = 9}), std::vector<int>(6, 0));
  }
}

TEST(ShiftLeft, MatchesItsReferenceForAnyThreadCount) {
  std::vector<int> values, documents;
  for (int i = 0; i < 3 * 4097; ++i) {
    values.push_back(i * 7919 % 1000);
    documents.push_back(i % 4097 > 4000 ? 0 : 1 + i % 4097 / (3 + i / 4097 * 5));
  }
  for (const std::int64_t distance : {1, 2, 3, 7})
    for (const bool last : {false, true}) {
      const ShiftOptions options{.sequence = 4097, .distance = distance, .filling = -1, .last_border_only = last};
      ThreadTeam one(1);
      const auto expected = shifted(ExecutionContext(one, Implementation::reference), values, documents, options);
      for (const int threads : {1, 2, 3}) {
        ThreadTeam team(threads);
        EXPECT_EQ(shifted(fast(team), values, documents, options), expected) << distance << " places, " << threads << " threads";
      }
    }
}

TEST(ShiftLeft, RefusesPartsOfRows) {
  ThreadTeam team(1);
  tests::expect_error(
      [&] {
        (void)shifted(fast(team), {1, 2, 3}, {1, 1, 1}, {.sequence = 2});
      },
      ExitCode::internal, {"kernels.shift_left", "rows of 2 tokens"});
  tests::expect_error(
      [&] {
        (void)shifted(fast(team), {1, 2}, {1, 1}, {.sequence = 2, .distance = 0});
      },
      ExitCode::internal, {"a distance of 0"});
}

}  // namespace
}  // namespace millrace::kernels::testing
