#include "kernels/group_offsets.hpp"

#include <limits>
#include <vector>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

const std::vector<std::vector<std::int32_t>> kCounts{{0}, {7}, {0, 3, 0}, {5, 0, 0, 2, 1}, std::vector<std::int32_t>(131, 4)};

Data integers(Shape shape, const std::vector<std::int32_t>& numbers) {
  Data data(DType::i32, shape);
  for (std::size_t i = 0; i < numbers.size(); ++i) data.set(static_cast<std::int64_t>(i), numbers[i]);
  return data;
}

TEST(GroupOffsets, AreTheSumsOfTheCountsBefore) {
  ThreadTeam team(2);
  for (const auto implementation : {Implementation::fast, Implementation::reference})
    for (const auto& counts : kCounts) {
      const auto groups = static_cast<std::int64_t>(counts.size());
      const ExecutionContext context = stream_of(team, implementation);
      const Data given = integers({groups, 1}, counts);  // in any shape
      Data offsets(DType::i32, {groups + 1}, 5), back(DType::i32, {groups}, 6);
      group_offsets(context, *given, *offsets);
      group_counts(context, *offsets, *back);
      wait();
      std::int64_t before = 0;
      for (std::int64_t g = 0; g < groups; ++g) {
        EXPECT_EQ(offsets.at(g), static_cast<double>(before));
        EXPECT_EQ(back.at(g), counts[static_cast<std::size_t>(g)]);
        before += counts[static_cast<std::size_t>(g)];
      }
      EXPECT_EQ(offsets.at(groups), static_cast<double>(before));
    }
}

TEST(GroupOffsets, RefuseWhatDoesNotFit) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  const int internal = static_cast<int>(ExitCode::internal);
  const Data counts = integers({3}, {1, 2, 3}), few(DType::i32, {3}), offsets(DType::i32, {4}), floats(DType::f32, {4});
  EXPECT_EQ(thrown([&] { group_offsets(context, *counts, *offsets); }), -1);
  EXPECT_EQ(thrown([&] { group_offsets(context, *counts, *few); }), internal);
  EXPECT_EQ(thrown([&] { group_offsets(context, *counts, *floats); }), internal);
  EXPECT_EQ(thrown([&] { group_counts(context, *few, *counts); }), internal);
  EXPECT_EQ(thrown([&] { group_counts(context, *floats, *counts); }), internal);
  if (on_device()) return;
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(thrown([&] { group_offsets(context, *integers({3}, {1, -2, 3}), *offsets); }), internal);
  EXPECT_EQ(thrown([&] { group_offsets(context, *integers({3}, {1, most, 0}), *offsets); }), internal);
  EXPECT_EQ(thrown([&] { group_offsets(context, *integers({3}, {0, most, 0}), *offsets); }), -1);
}

}  // namespace
}  // namespace millrace::kernels::testing
