#include "kernels/columns.hpp"

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

TEST(Columns, SplitTakesThemInOrderAndJoinPutsThemBack) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int threads : {1, 3}) {
      ThreadTeam team(threads);
      const ExecutionContext context = fast(team);
      const Data x(dtype, {37, 11}, 5);
      Data a(dtype, {37, 2}), b(dtype, {37, 1}), c(dtype, {37, 8}), y(dtype, {37, 11});
      const Tensor parts[] = {*a, *b, *c};
      split_columns(context, *x, parts);
      for (std::int64_t t = 0; t < 37; ++t) {
        EXPECT_EQ(a.get(2 * t + 1), x.get(11 * t + 1));
        EXPECT_EQ(b.get(t), x.get(11 * t + 2));
        EXPECT_EQ(c.get(8 * t), x.get(11 * t + 3));
        EXPECT_EQ(c.get(8 * t + 7), x.get(11 * t + 10));
      }
      join_columns(context, parts, *y);
      EXPECT_TRUE(same_bits(x, y));
    }
}

TEST(Columns, RefusesPartsThatAreNotTheWhole) {
  ThreadTeam team(1);
  const Data x(DType::f32, {3, 5});
  Data two(DType::f32, {3, 2}), short_one(DType::f32, {2, 3}), half(DType::bf16, {3, 3});
  for (const Tensor& other : {*two, *short_one, *half}) {
    const Tensor parts[] = {*two, other};
    EXPECT_EQ(thrown([&] { split_columns(fast(team), *x, parts); }), static_cast<int>(ExitCode::internal));
    EXPECT_EQ(thrown([&] { join_columns(fast(team), parts, *x); }), static_cast<int>(ExitCode::internal));
  }
}

}  // namespace
}  // namespace millrace::kernels::testing
