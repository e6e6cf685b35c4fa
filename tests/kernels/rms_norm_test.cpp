#include "kernels/rms_norm.hpp"

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

constexpr float kEpsilon = 1e-5F;

struct Results {
  Results(const Stream& stream, DType dtype, std::int64_t rows, std::int64_t width, RmsNormOptions options = {kEpsilon})
      : x(dtype, {rows, width}, 21, 3.0F),
        dy(dtype, {rows, width}, 22),
        w(DType::f32, {width}, 23),
        y(dtype, {rows, width}),
        dx(dtype, {rows, width}),
        r(DType::f32, {rows}),
        dw(DType::f32, {width}, 24) {
    rms_norm_forward(stream, *x, *w, options, *y, *r);
    rms_norm_input_gradient(stream, *dy, *x, *w, *r, options, *dx);
    const Buffer scratch = scratch_of(stream, rms_norm_weight_gradient_scratch_bytes((*x).shape, stream.processor()));
    rms_norm_weight_gradient(stream, *dy, *x, *r, *dw, scratch.bytes());
  }
  Data x, dy, w, y, dx, r, dw;
};

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
        const Results wanted(Stream(one, Implementation::reference), dtype, rows, width, options);
        const Results found(fast(one), dtype, rows, width, options);
        // Two roundings in bf16: the product's and the result's.
        EXPECT_TRUE(near(found.y, wanted.y, 2 * tolerance(dtype), 1e-6));
        EXPECT_TRUE(near(found.r, wanted.r, 1e-5, 0));
        EXPECT_TRUE(near(found.dx, wanted.dx, tolerance(dtype), 1e-5));
        EXPECT_TRUE(near(found.dw, wanted.dw, 1e-4, 1e-4));
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          const Results many(fast(team), dtype, rows, width, options);
          EXPECT_TRUE(same_bits(found.y, many.y));
          EXPECT_TRUE(same_bits(found.r, many.r));
          EXPECT_TRUE(same_bits(found.dx, many.dx));
          EXPECT_TRUE(same_bits(found.dw, many.dw));
        }
      }
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

double objective(const Stream& stream, const Data& x, const Data& w, const Data& dy, RmsNormOptions options) {
  Data y(DType::f32, (*x).shape), r(DType::f32, {(*x).shape[0]});
  rms_norm_forward(stream, *x, *w, options, *y, *r);
  double sum = 0;
  for (std::int64_t i = 0; i < y.elements(); ++i) sum += y.get(i) * dy.get(i);
  return sum;
}

TEST(RmsNorm, GradientsAreSlopes) {
  ThreadTeam team(1);
  const Stream stream = fast(team);
  for (const RmsNormOptions options : {RmsNormOptions{kEpsilon}, RmsNormOptions{kEpsilon, 1.0F}}) {
    Results run(stream, DType::f32, 3, 20, options);
    Data dw(DType::f32, {20});
    rms_norm_weight_gradient(stream, *run.dy, *run.x, *run.r, *dw, {});
    constexpr double step = 1e-2;
    const auto slope = [&](Data& operand, std::int64_t i) {
      const double value = operand.get(i);
      operand.set(i, value + step);
      const double above = objective(stream, run.x, run.w, run.dy, options);
      operand.set(i, value - step);
      const double below = objective(stream, run.x, run.w, run.dy, options);
      operand.set(i, value);
      return (above - below) / (2 * step);
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
