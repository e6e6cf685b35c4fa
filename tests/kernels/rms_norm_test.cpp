#include "kernels/rms_norm.hpp"

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::Interval;
using tests::roundings;

constexpr float kEpsilon = 1e-5F;

struct RmsNormResults {
  RmsNormResults(const ExecutionContext& context, DType dtype, std::int64_t rows, std::int64_t width, RmsNormOptions options = {kEpsilon},
                 std::int64_t sets = 1)
      : x(dtype, {rows, width}, 21, 3.0F),
        dy(dtype, {rows, width}, 22),
        w(DType::f32, sets == 1 ? Shape{width} : Shape{sets, width}, 23),
        y(dtype, {rows, width}),
        dx(dtype, {rows, width}),
        r(DType::f32, {rows}),
        dw(DType::f32, (*w).shape, 24) {
    rms_norm_forward(context, *x, *w, options, *y, *r);
    rms_norm_input_gradient(context, *dy, *x, *w, *r, options, *dx);
    rms_norm_weight_gradient(context, *dy, *x, *r, *dw);
  }
  Data x, dy, w, y, dx, r, dw;
};

/// Every result is checked against its own operands: y and dx against the r that was written.
void expect_norm(const RmsNormResults& at, RmsNormOptions options) {
  const std::int64_t rows = (*at.x).shape[0], width = (*at.x).shape[1];
  const auto depth = static_cast<double>(width);
  const std::int64_t sets = at.w.elements() / width;
  // The weight of element i of x: row t has set t mod sets.
  const auto weight = [&](std::int64_t i) { return at.w.at(i / width % sets * width + i % width) + options.offset; };
  std::vector<double> along(static_cast<std::size_t>(rows)), along_size(along.size());
  EXPECT_TRUE(lies_within(at.r, [&](std::int64_t t) {
    double squares = 0;
    for (std::int64_t d = 0; d < width; ++d) {
      const std::int64_t i = t * width + d;
      squares += at.x.at(i) * at.x.at(i);
      along[static_cast<std::size_t>(t)] += at.dy.at(i) * weight(i) * at.x.at(i) / depth;
      along_size[static_cast<std::size_t>(t)] += std::abs(at.dy.at(i) * weight(i) * at.x.at(i)) / depth;
    }
    const double r = 1 / std::sqrt(squares / depth + static_cast<double>(options.epsilon));
    // A root halves the relative error of its argument; division, epsilon, root and quotient round once each.
    return around(r, r * (0.5 * roundings(depth + 3) + roundings(2)));
  }));
  EXPECT_TRUE(lies_within(at.y, [&](std::int64_t i) {
    const double normal = at.x.at(i) * at.r.at(i / width);
    Interval scaled = around(normal, roundings(1) * std::abs(normal));
    if (options.round_first) scaled = stored_as((*at.x).dtype, scaled);
    return widened(scaled * weight(i), roundings(2) * std::abs(normal * weight(i)));
  }));
  EXPECT_TRUE(lies_within(at.dx, [&](std::int64_t i) {
    const auto t = static_cast<std::size_t>(i / width);
    const double r = at.r.at(i / width), g = at.dy.at(i) * weight(i), by_x = at.x.at(i) * r * r;
    return around(r * (g - by_x * along[t]), r * (roundings(4) * std::abs(g) + roundings(depth + 7) * std::abs(by_x) * along_size[t]));
  }));
  const Data start(DType::f32, (*at.dw).shape, 24);
  EXPECT_TRUE(lies_within(at.dw, [&](std::int64_t i) {
    const std::int64_t d = i % width;
    double sum = start.at(i), size = std::abs(sum);
    for (std::int64_t t = i / width; t < rows; t += sets) {
      const double term = at.dy.at(t * width + d) * at.x.at(t * width + d) * at.r.at(t);
      sum += term;
      size += std::abs(term);
    }
    return around(sum, roundings(static_cast<double>(rows) + 3) * size);
  }));
}

TEST(RmsNorm, MatchesReferenceForAnyThreadCount) {
  struct Norm {
    DType dtype;
    RmsNormOptions options;
  };
  for (const auto& [dtype, options] : {Norm{DType::f32, {kEpsilon}}, Norm{DType::bf16, {kEpsilon}},
                                       Norm{DType::f32, {kEpsilon, 1.0F, false}}, Norm{DType::bf16, {kEpsilon, 1.0F, false}}})
    for (const std::int64_t rows : {1, 5, 131})
      for (const std::int64_t width : {1, 8, 33, 64, 300, 515}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << width << " " << to_string(dtype) << " offset " << options.offset);
        ThreadTeam one(1);
        const RmsNormResults wanted(ExecutionContext(one, Implementation::reference), dtype, rows, width, options);
        const RmsNormResults found(fast(one), dtype, rows, width, options);
        for (const RmsNormResults* results : {&wanted, &found}) expect_norm(*results, options);
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          const RmsNormResults many(fast(team), dtype, rows, width, options);
          EXPECT_TRUE(same_bits(found.y, many.y));
          EXPECT_TRUE(same_bits(found.r, many.r));
          EXPECT_TRUE(same_bits(found.dx, many.dx));
          EXPECT_TRUE(same_bits(found.dw, many.dw));
        }
      }
}

// Several vectors of a token have weights of their own.
TEST(RmsNorm, RowsTakeTheirSetOfWeightsForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t sets : {2, 3, 4})
      for (const std::int64_t width : {1, 16, 33, 515}) {
        SCOPED_TRACE(::testing::Message() << sets << " sets of " << width << " " << to_string(dtype));
        const RmsNormOptions options{kEpsilon, 1.0F, false};
        ThreadTeam one(1);
        const RmsNormResults wanted(ExecutionContext(one, Implementation::reference), dtype, 35 * sets, width, options, sets);
        const RmsNormResults found(fast(one), dtype, 35 * sets, width, options, sets);
        for (const RmsNormResults* results : {&wanted, &found}) expect_norm(*results, options);
        ThreadTeam team(3);
        const RmsNormResults many(fast(team), dtype, 35 * sets, width, options, sets);
        EXPECT_TRUE(same_bits(found.y, many.y));
        EXPECT_TRUE(same_bits(found.dx, many.dx));
        EXPECT_TRUE(same_bits(found.dw, many.dw));
      }
  ThreadTeam team(1);
  EXPECT_EQ(thrown([&] { (void)RmsNormResults(fast(team), DType::f32, 5, 8, {kEpsilon}, 2); }), static_cast<int>(ExitCode::internal));
}

// x = (3, 4) has mean square 12.5; the product is rounded to bf16 before the weight multiplies it.
TEST(RmsNorm, RoundsWhereItsOptionsSay) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data x(DType::bf16, {1, 2}), w(DType::f32, {2}), y(DType::bf16, {1, 2}), r(DType::f32, {1});
    x.set(0, 3);
    x.set(1, 4);
    w.set(0, 1.7);
    w.set(1, 0.3);
    rms_norm_forward(stream_of(team, implementation), *x, *w, {}, *y, *r);
    EXPECT_FLOAT_EQ(static_cast<float>(r.get(0)), 1.0F / std::sqrt(12.5F));
    for (std::int64_t d = 0; d < 2; ++d) {
      const float normal = to_float(to_bfloat16(static_cast<float>(x.get(d)) / std::sqrt(12.5F)));
      EXPECT_EQ(y.get(d), to_float(to_bfloat16(normal * static_cast<float>(w.get(d)))));
    }
    rms_norm_forward(stream_of(team, implementation), *x, *w, {0.0F, 1.0F, false}, *y, *r);
    for (std::int64_t d = 0; d < 2; ++d) {
      const float normal = static_cast<float>(x.get(d)) * static_cast<float>(r.get(0));
      EXPECT_EQ(y.get(d), to_float(to_bfloat16(normal * (1.0F + static_cast<float>(w.get(d))))));
    }
  }
}

// The gradient from the residual sum is added before rounding.
TEST(RmsNorm, AddsAnotherGradientBeforeItRounds) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
      ThreadTeam team(2);
      const ExecutionContext context = stream_of(team, implementation);
      const RmsNormResults at(context, dtype, 5, 37);
      const Data addend(dtype, {5, 37}, 27, 4.0F);
      const Tensor added = *addend;
      Data dx(dtype, {5, 37});
      rms_norm_input_gradient(context, *at.dy, *at.x, *at.w, *at.r, {kEpsilon}, *dx, &added);
      Data alone(DType::f32, {5, 37});
      rms_norm_input_gradient(context, *as_fp32(at.dy), *as_fp32(at.x), *at.w, *at.r, {kEpsilon}, *alone);
      EXPECT_TRUE(lies_within(dx, [&](std::int64_t i) {
        const double sum = alone.at(i) + addend.at(i);
        return around(sum, roundings(1) * (std::abs(sum) + std::abs(alone.at(i))));
      }));
    }
}

double objective(const ExecutionContext& context, const Data& x, const Data& w, const Data& dy, RmsNormOptions options) {
  Data y(DType::f32, (*x).shape), r(DType::f32, {(*x).shape[0]});
  rms_norm_forward(context, *x, *w, options, *y, *r);
  double sum = 0;
  for (std::int64_t i = 0; i < y.elements(); ++i) sum += y.get(i) * dy.get(i);
  return sum;
}

TEST(RmsNorm, GradientsAreSlopes) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  for (const RmsNormOptions options : {RmsNormOptions{kEpsilon}, RmsNormOptions{kEpsilon, 1.0F}}) {
    RmsNormResults run(context, DType::f32, 3, 20, options);
    Data dw(DType::f32, {20});
    rms_norm_weight_gradient(context, *run.dy, *run.x, *run.r, *dw);
    const auto slope = [&](Data& operand, std::int64_t i) {
      return slope_along(operand, i, 1e-2, [&] { return objective(context, run.x, run.w, run.dy, options); });
    };
    for (std::int64_t i = 0; i < 60; ++i) EXPECT_NEAR(run.dx.get(i), slope(run.x, i), 1e-3) << i;
    for (std::int64_t i = 0; i < 20; ++i) EXPECT_NEAR(dw.get(i), slope(run.w, i), 1e-3) << i;
  }
}

TEST(RmsNorm, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  Data x(DType::f32, {4, 8}), w(DType::f32, {9}), y(DType::f32, {4, 8}), r(DType::f32, {4}), good(DType::f32, {8});
  EXPECT_EQ(thrown([&] { rms_norm_forward(fast(team), *x, *w, {kEpsilon}, *y, *r); }), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(thrown([&] { rms_norm_forward(fast(team), *x, *good, {kEpsilon}, *y, *r); }), -1);
}

}  // namespace
}  // namespace millrace::kernels::testing
