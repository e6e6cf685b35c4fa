#include "kernels/layer_norm.hpp"

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::roundings;

struct LayerNormResults {
  LayerNormResults(const ExecutionContext& context, DType dtype, std::int64_t rows, std::int64_t width, LayerNormOptions options)
      : x(dtype, {rows, width}, 21, 3.0F),
        dy(dtype, {rows, width}, 22),
        w(DType::f32, {width}, 23),
        b(DType::f32, {width}, 24),
        y(dtype, {rows, width}),
        dx(dtype, {rows, width}),
        m(DType::f32, {rows}),
        r(DType::f32, {rows}),
        dw(DType::f32, {width}, 25),
        db(DType::f32, {width}, 26) {
    layer_norm_forward(context, *x, *w, *b, options, *y, *m, *r);
    layer_norm_input_gradient(context, *dy, *x, *w, *m, *r, options, *dx);
    layer_norm_weight_gradient(context, *dy, *x, *m, *r, *dw, *db);
  }
  Data x, dy, w, b, y, dx, m, r, dw, db;
};

constexpr LayerNormOptions kPlain{1e-5F}, kShifted{1e-5F, 1.0F};

/// Every result is checked against its own operands: results that depend on m and r, against the m and r that were written.
void expect_norm(const LayerNormResults& at, LayerNormOptions options) {
  const std::int64_t rows = (*at.x).shape[0], width = (*at.x).shape[1];
  const auto depth = static_cast<double>(width);
  const auto weight = [&](std::int64_t d) { return at.w.at(d) + options.offset; };
  const auto normal = [&](std::int64_t i) { return (at.x.at(i) - at.m.at(i / width)) * at.r.at(i / width); };
  EXPECT_TRUE(lies_within(at.m, [&](std::int64_t t) {
    double sum = 0, size = 0;
    for (std::int64_t d = 0; d < width; ++d) sum += at.x.at(t * width + d), size += std::abs(at.x.at(t * width + d));
    return around(sum / depth, roundings(depth + 1) * size / depth);
  }));
  EXPECT_TRUE(lies_within(at.r, [&](std::int64_t t) {
    double squares = 0, error = 0;
    for (std::int64_t d = 0; d < width; ++d) {
      const double x = at.x.at(t * width + d), away = x - at.m.at(t);
      squares += away * away / depth;
      error += 2 * std::abs(away) * roundings(1) * std::abs(away) / depth;
    }
    const double variance = squares + options.epsilon, r = 1 / std::sqrt(variance);
    // The reference's mean stays a double until it is stored.
    const double mean_error = std::pow(roundings(1) * at.m.at(t), 2);
    return around(r, r * (0.5 * (roundings(depth + 3) * variance + error + mean_error) / variance + roundings(2)));
  }));
  EXPECT_TRUE(lies_within(at.y, [&](std::int64_t i) {
    const double scaled = normal(i) * weight(i % width), y = scaled + at.b.at(i % width);
    return around(y, roundings(4) * std::abs(scaled) + roundings(1) * std::abs(y));
  }));
  std::vector<double> mean(static_cast<std::size_t>(rows)), along(mean.size()), mean_size(mean.size()), along_size(mean.size());
  for (std::int64_t i = 0; i < rows * width; ++i) {
    const auto t = static_cast<std::size_t>(i / width);
    const double g = at.dy.at(i) * weight(i % width) / depth;
    mean[t] += g;
    mean_size[t] += std::abs(g);
    along[t] += g * normal(i);
    along_size[t] += std::abs(g * normal(i));
  }
  EXPECT_TRUE(lies_within(at.dx, [&](std::int64_t i) {
    const auto t = static_cast<std::size_t>(i / width);
    const double r = at.r.at(i / width), g = at.dy.at(i) * weight(i % width);
    return around(r * (g - mean[t] - normal(i) * along[t]), r * (roundings(5) * std::abs(g) + roundings(depth + 6) * mean_size[t] +
                                                                 roundings(depth + 9) * std::abs(normal(i)) * along_size[t]));
  }));
  const Data dw_before(DType::f32, {width}, 25), db_before(DType::f32, {width}, 26);
  const auto column = [&](std::int64_t d, const Data& before, auto&& factor) {
    double sum = before.at(d), size = std::abs(sum);
    for (std::int64_t t = 0; t < rows; ++t) {
      const double term = at.dy.at(t * width + d) * factor(t * width + d);
      sum += term;
      size += std::abs(term);
    }
    return around(sum, roundings(static_cast<double>(rows) + 3) * size);
  };
  EXPECT_TRUE(lies_within(at.dw, [&](std::int64_t d) { return column(d, dw_before, normal); }));
  EXPECT_TRUE(lies_within(at.db, [&](std::int64_t d) { return column(d, db_before, [](std::int64_t) { return 1.0; }); }));
}

TEST(LayerNorm, MatchesReferenceForAnyThreadCount) {
  for (const LayerNormOptions options : {kPlain, kShifted})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const std::int64_t rows : {1, 5, 131})
        for (const std::int64_t width : {2, 8, 33, 64, 300, 515}) {
          SCOPED_TRACE(::testing::Message() << rows << " x " << width << " " << to_string(dtype) << " offset " << options.offset);
          ThreadTeam one(1);
          const LayerNormResults wanted(ExecutionContext(one, Implementation::reference), dtype, rows, width, options);
          const LayerNormResults found(fast(one), dtype, rows, width, options);
          for (const LayerNormResults* results : {&wanted, &found}) expect_norm(*results, options);
          for (const int threads : {2, 3}) {
            ThreadTeam team(threads);
            const LayerNormResults many(fast(team), dtype, rows, width, options);
            for (const auto member : {&LayerNormResults::y, &LayerNormResults::m, &LayerNormResults::r, &LayerNormResults::dx,
                                      &LayerNormResults::dw, &LayerNormResults::db})
              EXPECT_TRUE(same_bits(found.*member, many.*member));
          }
        }
}

// x = (1, 3): mean 2, variance 1.
TEST(LayerNorm, CentresAndScalesARow) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data x(DType::f32, {1, 2}), w(DType::f32, {2}), b(DType::f32, {2}), y(DType::f32, {1, 2}), m(DType::f32, {1}), r(DType::f32, {1});
    x.set(0, 1);
    x.set(1, 3);
    w.set(0, 2);
    w.set(1, 4);
    b.set(1, 0.5);
    layer_norm_forward(stream_of(team, implementation), *x, *w, *b, {0.0F, 1.0F}, *y, *m, *r);
    EXPECT_EQ(m.get(0), 2);
    EXPECT_EQ(r.get(0), 1);
    EXPECT_EQ(y.get(0), -3);
    EXPECT_EQ(y.get(1), 5.5);
  }
}

// A large mean must not cancel the variance, so two passes are needed.
TEST(LayerNorm, KeepsASmallVarianceBesideALargeMean) {
  ThreadTeam team(1);
  Data x(DType::f32, {1, 64}), w(DType::f32, {64}), b(DType::f32, {64}), y(DType::f32, {1, 64}), m(DType::f32, {1}), r(DType::f32, {1});
  for (std::int64_t d = 0; d < 64; ++d) {
    x.set(d, 4096 + (d % 2 == 0 ? 0.25 : -0.25));
    w.set(d, 1);
  }
  layer_norm_forward(fast(team), *x, *w, *b, {0.0F}, *y, *m, *r);
  for (std::int64_t d = 0; d < 64; ++d) EXPECT_NEAR(y.get(d), d % 2 == 0 ? 1 : -1, 1e-5);
}

double objective(const ExecutionContext& context, const LayerNormResults& run, LayerNormOptions options) {
  Data y(DType::f32, (*run.x).shape), m(DType::f32, {(*run.x).shape[0]}), r(DType::f32, {(*run.x).shape[0]});
  layer_norm_forward(context, *run.x, *run.w, *run.b, options, *y, *m, *r);
  double sum = 0;
  for (std::int64_t i = 0; i < y.elements(); ++i) sum += y.get(i) * run.dy.get(i);
  return sum;
}

TEST(LayerNorm, GradientsAreSlopes) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  for (const LayerNormOptions options : {kPlain, kShifted}) {
    LayerNormResults run(context, DType::f32, 3, 20, options);
    Data dw(DType::f32, {20}), db(DType::f32, {20});
    layer_norm_weight_gradient(context, *run.dy, *run.x, *run.m, *run.r, *dw, *db);
    const auto slope = [&](Data& operand, std::int64_t i) {
      return slope_along(operand, i, 1e-2, [&] { return objective(context, run, options); });
    };
    for (std::int64_t i = 0; i < 60; ++i) EXPECT_NEAR(run.dx.get(i), slope(run.x, i), 1e-3) << i;
    for (std::int64_t i = 0; i < 20; ++i) EXPECT_NEAR(dw.get(i), slope(run.w, i), 1e-3) << i;
    for (std::int64_t i = 0; i < 20; ++i) EXPECT_NEAR(db.get(i), slope(run.b, i), 1e-3) << i;
  }
}

TEST(LayerNorm, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  Data x(DType::f32, {4, 8}), w(DType::f32, {9}), b(DType::f32, {8}), y(DType::f32, {4, 8}), m(DType::f32, {4}), r(DType::f32, {4});
  EXPECT_EQ(thrown([&] { layer_norm_forward(fast(team), *x, *w, *b, kPlain, *y, *m, *r); }), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(thrown([&] { layer_norm_forward(fast(team), *x, *b, *b, kPlain, *y, *m, *r); }), -1);
  EXPECT_EQ(thrown([&] { layer_norm_forward(fast(team), *x, *b, *b, kPlain, *y, *b, *r); }), static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace millrace::kernels::testing
