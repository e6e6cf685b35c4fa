#include "kernels/scale_heads.hpp"

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

TEST(ScaleHeads, MultipliesRootsAndWholesAndLeavesTheRest) {
  for (const bool rows : {false, true})
    for (const int threads : {1, 3})
      for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
        ThreadTeam team(threads);
        const HeadOutputs outputs{.heads = 5, .roots = 6, .wholes = 3, .rest = 4, .rows = rows};
        const Shape shape = rows ? Shape{65, 37} : Shape{37, 65};
        const Data before(DType::f32, shape, 3), after(DType::f32, shape, 3);
        const std::vector<float> factors{0.25F, 1.0F, 0.5F, 0.0F, 0.81F};
        scale_heads(stream_of(team, implementation), outputs, factors, *after);
        wait();
        for (std::int64_t i = 0; i < before.elements(); ++i) {
          const std::int64_t output = rows ? i / 37 : i % 65, part = output % 13;
          const float factor = factors[static_cast<std::size_t>(output / 13)];
          const float expected = part < 6 ? std::sqrt(factor) : part < 9 ? factor : 1.0F;
          EXPECT_EQ(static_cast<float>(after.at(i)), static_cast<float>(before.at(i)) * expected) << i;
        }
      }
}

TEST(ScaleHeads, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  const Data matrix(DType::f32, {4, 6}, 1);
  const int internal = static_cast<int>(ExitCode::internal);
  const std::vector<float> two{1, 1}, three{1, 1, 1};
  EXPECT_EQ(thrown([&] { scale_heads(fast(team), {2, 1, 1, 1, false}, two, *matrix); }), -1);
  EXPECT_EQ(thrown([&] { scale_heads(fast(team), {2, 1, 1, 1, true}, two, *matrix); }), internal);
  EXPECT_EQ(thrown([&] { scale_heads(fast(team), {2, 1, 1, 1, false}, three, *matrix); }), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
