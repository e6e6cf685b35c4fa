#include "kernels/sinusoid.hpp"

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

struct SinusoidResults {
  SinusoidResults(const ExecutionContext& context, DType dtype, std::int64_t rows, std::int64_t width)
      : x(dtype, {rows, width}, 1), positions(DType::i32, {rows}), inverse(DType::f32, {width / 2}), y(dtype, {rows, width}) {
    for (std::int64_t i = 0; i < rows; ++i) positions.set(i, static_cast<double>(i * 37 % 4099));
    for (std::int64_t i = 0; i < width / 2; ++i) inverse.set(i, std::pow(1e-4, static_cast<double>(i) / static_cast<double>(width)));
    add_sinusoid(context, *x, *positions, *inverse, *y);
  }
  Data x, positions, inverse, y;
};

TEST(Sinusoid, MatchesReferenceForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t rows : {1, 5, 131})
      for (const std::int64_t width : {2, 34, 130}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << width << " " << to_string(dtype));
        ThreadTeam one(1);
        const SinusoidResults wanted(ExecutionContext(one, Implementation::reference), dtype, rows, width),
            found(fast(one), dtype, rows, width);
        // The sine of an fp32 angle has an error of at most two units in the last place (a GPU's; half a unit on a CPU), and the
        // sum adds its rounding.
        for (const SinusoidResults* results : {&wanted, &found})
          EXPECT_TRUE(lies_within(results->y, [&](std::int64_t i) {
            const std::int64_t column = i % width, half = width / 2;
            const double angle =
                static_cast<float>(results->positions.at(i / width)) * static_cast<float>(results->inverse.at(column % half));
            const double added = column < half ? std::sin(angle) : std::cos(angle), sum = results->x.at(i) + added;
            return tests::around(sum, tests::fp32_roundoff * (4 * std::abs(added) + std::abs(sum)));
          }));
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          EXPECT_TRUE(same_bits(SinusoidResults(fast(team), dtype, rows, width).y, found.y));
        }
      }
}

TEST(Sinusoid, AddsSinesThenCosines) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data x(DType::f32, {1, 4}), positions(DType::i32, {1}), inverse(DType::f32, {2}), y(DType::f32, {1, 4});
    for (std::int64_t i = 0; i < 4; ++i) x.set(i, 10);
    positions.set(0, 3);
    inverse.set(0, 1);
    inverse.set(1, 0.25);
    add_sinusoid(stream_of(team, implementation), *x, *positions, *inverse, *y);
    EXPECT_NEAR(y.get(0), 10 + std::sin(3.0), 1e-6);
    EXPECT_NEAR(y.get(1), 10 + std::sin(0.75), 1e-6);
    EXPECT_NEAR(y.get(2), 10 + std::cos(3.0), 1e-6);
    EXPECT_NEAR(y.get(3), 10 + std::cos(0.75), 1e-6);
  }
}

TEST(Sinusoid, RefusesAnOddWidth) {
  ThreadTeam team(1);
  Data x(DType::f32, {2, 3}), positions(DType::i32, {2}), inverse(DType::f32, {1});
  EXPECT_EQ(thrown([&] { add_sinusoid(fast(team), *x, *positions, *inverse, *x); }), static_cast<int>(ExitCode::config));
}

}  // namespace
}  // namespace millrace::kernels::testing
