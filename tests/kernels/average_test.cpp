#include "kernels/average.hpp"

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

TEST(Average, MovesTowardsTheParameterAndExchanges) {
  for (const int threads : {1, 3})
    for (const std::int64_t size : {1, 15, 16, 33, 9001}) {
      ThreadTeam team(threads);
      const Data x(DType::f32, {size}, 1), before(DType::f32, {size}, 2);
      for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
        const auto context = stream_of(team, implementation);
        const Data average(DType::f32, {size}, 2), other(DType::f32, {size}, 1);
        move_average(context, 0.25F, *x, *average);
        EXPECT_TRUE(lies_within(
            average, [&](std::int64_t i) { return tests::around(0.75 * before.at(i) + 0.25 * x.at(i), tests::roundings(3) * 2); }));
        const Data moved(average);
        exchange(context, *average, *other);
        EXPECT_TRUE(same_bits(average, x));
        EXPECT_TRUE(same_bits(other, moved));
      }
    }
}

TEST(Average, HasTheBitsOfTheReference) {
  ThreadTeam team(2);
  const Data x(DType::f32, {4099}, 1), fast_one(DType::f32, {4099}, 2), reference(DType::f32, {4099}, 2);
  move_average(fast(team), 0.003F, *x, *fast_one);
  move_average(ExecutionContext(team, Implementation::reference), 0.003F, *x, *reference);
  EXPECT_TRUE(same_bits(fast_one, reference));
}

TEST(Average, RefusesOtherShapes) {
  ThreadTeam team(1);
  const Data x(DType::f32, {4}), y(DType::f32, {5});
  EXPECT_EQ(thrown([&] { move_average(fast(team), 0.5F, *x, *y); }), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(thrown([&] { exchange(fast(team), *x, *y); }), static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace millrace::kernels::testing
