#include "kernels/l2_norm.hpp"

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::roundings;

constexpr float kL2Epsilon = 1e-2F;

struct L2NormResults {
  L2NormResults(const ExecutionContext& context, DType dtype, std::int64_t rows, std::int64_t width)
      : x(dtype, {rows, width}, 21, 3.0F),
        dy(dtype, {rows, width}, 22),
        y(dtype, {rows, width}),
        dx(dtype, {rows, width}),
        r(DType::f32, {rows}) {
    l2_norm_forward(context, *x, {width, kL2Epsilon}, *y, *r);
    l2_norm_input_gradient(context, *dy, *x, *r, *dx);
    wait();
  }
  Data x, dy, y, dx, r;
};

/// Every result is checked against its own operands: y and dx against the r that was written.
void expect_norm(const L2NormResults& at) {
  const std::int64_t rows = (*at.x).shape[0], width = (*at.x).shape[1];
  const auto depth = static_cast<double>(width);
  const double epsilon = stored_as((*at.x).dtype, kL2Epsilon);
  std::vector<double> along(static_cast<std::size_t>(rows)), along_size(along.size());
  EXPECT_TRUE(lies_within(at.r, [&](std::int64_t t) {
    double squares = 0;
    for (std::int64_t i = t * width; i < (t + 1) * width; ++i) {
      squares += at.x.at(i) * at.x.at(i);
      along[static_cast<std::size_t>(t)] += at.dy.at(i) * at.x.at(i);
      along_size[static_cast<std::size_t>(t)] += std::abs(at.dy.at(i) * at.x.at(i));
    }
    const double r = 1 / std::sqrt(squares + epsilon);
    // A root halves the relative error of its argument; epsilon, root and quotient round once each.
    return around(r, r * (0.5 * roundings(depth + 2) + roundings(2)));
  }));
  EXPECT_TRUE(lies_within(at.y, [&](std::int64_t i) {
    const double normal = at.x.at(i) * at.r.at(i / width);
    return around(normal, roundings(1) * std::abs(normal));
  }));
  EXPECT_TRUE(lies_within(at.dx, [&](std::int64_t i) {
    const auto t = static_cast<std::size_t>(i / width);
    const double r = at.r.at(i / width), by_x = at.x.at(i) * r * r;
    return around(r * (at.dy.at(i) - by_x * along[t]),
                  r * (roundings(3) * std::abs(at.dy.at(i)) + roundings(depth + 6) * std::abs(by_x) * along_size[t]));
  }));
}

TEST(L2Norm, MatchesReferenceForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t rows : {1, 5, 67})
      for (const std::int64_t width : {1, 33, 128, 515}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << width << " " << to_string(dtype));
        ThreadTeam one(1);
        expect_norm(L2NormResults(ExecutionContext(one, Implementation::reference), dtype, rows, width));
        const L2NormResults found(fast(one), dtype, rows, width);
        expect_norm(found);
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          const L2NormResults many(fast(team), dtype, rows, width);
          EXPECT_TRUE(same_bits(found.y, many.y));
          EXPECT_TRUE(same_bits(found.r, many.r));
          EXPECT_TRUE(same_bits(found.dx, many.dx));
        }
      }
}

// (3, 4) with an epsilon of 11 has the length 6; zeros stay zero.
TEST(L2Norm, AddsEpsilonInsideOfTheRoot) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data x(DType::f32, {2, 2}), y(DType::f32, {2, 2}), r(DType::f32, {2});
    x.set(0, 3);
    x.set(1, 4);
    l2_norm_forward(stream_of(team, implementation), *x, {.epsilon = 11.0F}, *y, *r);
    EXPECT_FLOAT_EQ(static_cast<float>(r.get(0)), 1.0F / 6.0F);
    EXPECT_FLOAT_EQ(static_cast<float>(y.get(1)), 4.0F / 6.0F);
    EXPECT_EQ(y.get(2), 0);
    EXPECT_EQ(y.get(3), 0);
  }
}

TEST(L2Norm, GradientsAreSlopes) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  L2NormResults run(context, DType::f32, 3, 20);
  const auto objective = [&] {
    Data y(DType::f32, {3, 20}), r(DType::f32, {3});
    l2_norm_forward(context, *run.x, {20, kL2Epsilon}, *y, *r);
    double sum = 0;
    for (std::int64_t i = 0; i < y.elements(); ++i) sum += y.get(i) * run.dy.get(i);
    return sum;
  };
  // Twenty fp32 results of at most 1 over twice the step, and its square times a third derivative.
  for (std::int64_t i = 0; i < 60; ++i) EXPECT_NEAR(run.dx.get(i), slope_along(run.x, i, 1e-2, objective), 2e-4) << i;
}

TEST(L2Norm, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  Data x(DType::f32, {4, 8}), y(DType::f32, {4, 8}), r(DType::f32, {4}), short_r(DType::f32, {3}), half(DType::bf16, {4, 8});
  constexpr int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(thrown([&] { l2_norm_forward(fast(team), *x, {8, kL2Epsilon}, *y, *r); }), -1);
  EXPECT_EQ(thrown([&] { l2_norm_forward(fast(team), *x, {4, kL2Epsilon}, *y, *r); }), internal);
  EXPECT_EQ(thrown([&] { l2_norm_forward(fast(team), *x, {8, kL2Epsilon}, *y, *short_r); }), internal);
  EXPECT_EQ(thrown([&] { l2_norm_input_gradient(fast(team), *half, *x, *r, *y); }), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
