#include "kernels/softmax.hpp"

#include <limits>
#include <vector>

#include "tests/kernels/fixture.hpp"
#include "tests/kernels/slopes.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::fp32_roundoff;
using tests::roundings;

constexpr float kRowScale = 4.0F;  // so that a row's numbers differ by 8 at most

struct SoftmaxResults {
  SoftmaxResults(const ExecutionContext& context, DType dtype, std::int64_t rows, std::int64_t width)
      : x(dtype, {rows, width}, 1, kRowScale), dy(dtype, {rows, width}, 2), y(dtype, {rows, width}, 3), dx(dtype, {rows, width}, 4) {
    softmax(context, *x, *y);
    softmax_input_gradient(context, *dy, *y, *dx);
    wait();
  }
  Data x, dy, y, dx;
};

/// The gradient is checked against the results that were written, which are its operands.
void expect_definition(const SoftmaxResults& at, std::int64_t rows, std::int64_t width) {
  std::vector<double> sums(static_cast<std::size_t>(rows)), means(sums.size()), sizes(sums.size());
  for (std::int64_t i = 0; i < rows * width; ++i) {
    const auto t = static_cast<std::size_t>(i / width);
    sums[t] += std::exp(at.x.at(i));
    means[t] += at.dy.at(i) * at.y.at(i);
    sizes[t] += std::abs(at.dy.at(i) * at.y.at(i));
  }
  EXPECT_TRUE(lies_within(at.y, [&](std::int64_t i) {
    const double share = std::exp(at.x.at(i)) / sums[static_cast<std::size_t>(i / width)];
    // The exponential, the sum of such, and the quotient.
    return around(share, share * (2 * exponential_error(kRowScale) + roundings(static_cast<double>(width) + 1)));
  }));
  EXPECT_TRUE(lies_within(at.dx, [&](std::int64_t i) {
    const auto t = static_cast<std::size_t>(i / width);
    const double mean_error = roundings(static_cast<double>(width) + 1) * sizes[t];
    return around(at.y.at(i) * (at.dy.at(i) - means[t]),
                  at.y.at(i) * (mean_error + roundings(2) * (std::abs(at.dy.at(i)) + std::abs(means[t]))));
  }));
}

TEST(Softmax, MatchesReferenceForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t rows : {0, 1, 13, 301})
      for (const std::int64_t width : {1, 5, 16, 33, 70}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << width << " " << to_string(dtype));
        ThreadTeam one(1);
        expect_definition(SoftmaxResults(ExecutionContext(one, Implementation::reference), dtype, rows, width), rows, width);
        const SoftmaxResults found(fast(one), dtype, rows, width);
        expect_definition(found, rows, width);
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          const SoftmaxResults many(fast(team), dtype, rows, width);
          EXPECT_TRUE(same_bits(found.y, many.y));
          EXPECT_TRUE(same_bits(found.dx, many.dx));
        }
      }
}

// Exponentials of such numbers would be infinite, or all 0.
TEST(Softmax, LargeNumbersHaveFiniteResults) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference})
    for (const double size : {-1000.0, 1000.0}) {
      Data x(DType::f32, {1, 3}), y(DType::f32, {1, 3});
      for (std::int64_t i = 0; i < 3; ++i) x.set(i, i == 2 ? size - std::log(2.0) : size);
      softmax(stream_of(team, implementation), *x, *y);
      wait();
      // The difference of log 2 is off by half an ulp of a thousand.
      for (std::int64_t i = 0; i < 3; ++i) EXPECT_NEAR(y.get(i), i == 2 ? 0.2 : 0.4, 1e-5);
    }
}

TEST(Softmax, GradientsAreSlopes) {
  ThreadTeam team(1);
  constexpr std::int64_t rows = 4, width = 5;
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = stream_of(team, implementation);
    SoftmaxResults run(context, DType::f32, rows, width);
    constexpr double step = 0x1p-5;
    // Each y is at most 1 and off by its relative error; dy is at most 1. The third derivative of a part of a softmax is at most 1.
    const double tolerance = static_cast<double>(width) *
                             ((2 * exponential_error(kRowScale) + roundings(static_cast<double>(width) + 1)) / step + step * step / 6);
    const double largest = expect_slopes(run.x, run.dx, 1.0, step, tolerance, [&] {
      softmax(context, *run.x, *run.y);
      wait();
      double sum = 0;
      for (std::int64_t i = 0; i < rows * width; ++i) sum += run.y.get(i) * run.dy.get(i);
      return sum;
    });
    EXPECT_GT(largest, 10 * tolerance);
  }
}

TEST(Softmax, ANotANumberIsSeen) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data x(DType::f32, {3, 5}, 1), y(DType::f32, {3, 5});
    x.set(7, std::numeric_limits<double>::quiet_NaN());
    softmax(stream_of(team, implementation), *x, *y);
    wait();
    for (std::int64_t i = 0; i < 15; ++i) EXPECT_EQ(std::isnan(y.get(i)), i / 5 == 1) << i;
  }
}

TEST(Softmax, RefusesOtherShapes) {
  ThreadTeam team(1);
  Data x(DType::f32, {4, 8}), other(DType::f32, {4, 7}), half(DType::bf16, {4, 8}), numbers(DType::i32, {4, 8}), vector(DType::f32, {4});
  constexpr int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(thrown([&] { softmax(fast(team), *x, *x); }), -1);
  EXPECT_EQ(thrown([&] { softmax(fast(team), *x, *other); }), internal);
  EXPECT_EQ(thrown([&] { softmax(fast(team), *x, *half); }), internal);
  EXPECT_EQ(thrown([&] { softmax(fast(team), *numbers, *numbers); }), internal);
  EXPECT_EQ(thrown([&] { softmax(fast(team), *vector, *vector); }), internal);
  EXPECT_EQ(thrown([&] { softmax_input_gradient(fast(team), *x, *half, *x); }), internal);
  EXPECT_EQ(thrown([&] { softmax_input_gradient(fast(team), *x, *x, *other); }), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
