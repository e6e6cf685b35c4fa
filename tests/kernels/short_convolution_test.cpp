#include "kernels/short_convolution.hpp"

#include <cmath>
#include <vector>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::roundings;

struct ConvolutionCase {
  std::int64_t rows, sequence, channels, taps;
  DType dtype = DType::f32, weights = DType::f32;
  bool silu = false;
  std::int64_t document = 0;  // tokens per segment; 0: one segment per row
  bool reset = true;
  std::int64_t dilation = 1;
};

const std::vector<ConvolutionCase> kConvolutionCases = {
    {1, 1, 1, 4},
    {3, 1, 17, 4, DType::f32, DType::f32, true},
    {2, 67, 64, 4, DType::f32, DType::f32, true},
    {1, 131, 200, 4, DType::f32, DType::f32, false, 50},
    {2, 30, 70, 4, DType::f32, DType::f32, true, 1},
    {2, 30, 70, 4, DType::f32, DType::f32, true, 7},
    {2, 30, 70, 4, DType::f32, DType::f32, true, 7, false},
    {2, 9, 33, 1, DType::f32, DType::f32, true, 4},
    {1, 40, 5, 16, DType::f32, DType::f32, true, 18},
    {2, 5, 5, 7},
    {1, 131, 200, 4, DType::bf16, DType::bf16, true, 50},
    {2, 67, 33, 3, DType::bf16, DType::f32, true},
    {2, 67, 64, 4, DType::bf16, DType::bf16, false, 20},
    {2, 67, 70, 4, DType::f32, DType::f32, true, 0, false, 3},
    {2, 41, 33, 4, DType::f32, DType::f32, true, 9, true, 2},
    {3, 7, 64, 5, DType::f32, DType::f32, false, 0, true, 4},
    {1, 90, 17, 16, DType::bf16, DType::f32, true, 30, false, 4},
};

std::string describe(const ConvolutionCase& c) {
  return fmt::format("B={} S={} C={} W={} {} weights {} silu {} documents of {} reset {} dilation {}", c.rows, c.sequence, c.channels,
                     c.taps, to_string(c.dtype), to_string(c.weights), c.silu, c.document, c.reset, c.dilation);
}

struct ConvolutionResults {
  ConvolutionResults(const ExecutionContext& context, const ConvolutionCase& c)
      : shape(c),
        x(c.dtype, {c.rows * c.sequence, c.channels}, 41, 2.0F),
        w(c.weights, {c.channels, 1, c.taps}, 42),
        dy(c.dtype, {c.rows * c.sequence, c.channels}, 43),
        segments(DType::i32, {c.rows * c.sequence}),
        y(c.dtype, {c.rows * c.sequence, c.channels}),
        dx(c.dtype, {c.rows * c.sequence, c.channels}),
        dw(DType::f32, {c.channels, 1, c.taps}, 44) {
    for (std::int64_t t = 0; t < segments.elements(); ++t)
      segments.set(t, c.document == 0 ? 1 : 1 + static_cast<double>(t % c.sequence / c.document));
    short_convolution_forward(context, *x, *w, *segments, options(), *y);
    short_convolution_input_gradient(context, *dy, *x, *w, *segments, options(), *dx);
    short_convolution_weight_gradient(context, *dy, *x, *w, *segments, options(), *dw);
    wait();
  }
  [[nodiscard]] ShortConvolutionOptions options() const {
    return {.sequence = shape.sequence, .silu = shape.silu, .reset_at_segments = shape.reset, .dilation = shape.dilation};
  }
  ConvolutionCase shape;
  Data x, w, dy, segments, y, dx, dw;
};

/// The definition in double. Where the sum is rounded to bf16 before SiLU, it may be rounded either way: everything behind it has the error
/// that this makes.
struct ConvolutionTruth {
  explicit ConvolutionTruth(const ConvolutionResults& results) : at(results), c(results.shape), tokens(c.rows * c.sequence) {
    for (std::int64_t i = 0; i < tokens * c.channels; ++i) {
      double sum = 0, size = 0;
      for (std::int64_t distance = c.taps - 1; distance >= 0; --distance) {
        if (!sees(i / c.channels, distance)) continue;
        const double term = weight(i % c.channels, distance) * at.x.at(i - distance * c.dilation * c.channels);
        sum += term;
        size += std::abs(term);
      }
      const double error = roundings(static_cast<double>(2 * c.taps)) * size;
      sums.push_back(stored_as(c.dtype, around(sum, error)));
    }
  }
  [[nodiscard]] double weight(std::int64_t n, std::int64_t distance) const { return at.w.at(n * c.taps + c.taps - 1 - distance); }
  /// Whether token t sees the token `distance` taps before it.
  [[nodiscard]] bool sees(std::int64_t t, std::int64_t distance) const {
    if (t % c.sequence < distance * c.dilation) return false;
    return !c.reset || at.segments.at(t) == at.segments.at(t - distance * c.dilation);
  }
  /// The middle of what the sum may have been stored as, and how far it may be from that.
  [[nodiscard]] double sum(std::int64_t i) const {
    return (sums[static_cast<std::size_t>(i)].low + sums[static_cast<std::size_t>(i)].high) / 2;
  }
  [[nodiscard]] double reach(std::int64_t i) const {
    return (sums[static_cast<std::size_t>(i)].high - sums[static_cast<std::size_t>(i)].low) / 2;
  }
  /// The gradient of the sum. The second derivative of SiLU is at most ½; SiLU itself is within ten roundings, of which the exponential is
  /// four.
  [[nodiscard]] double upstream(std::int64_t i, double& error) const {
    const double dy = at.dy.at(i), value = sum(i), s = 1 / (1 + std::exp(-value));
    error = 0;
    if (!c.silu) return dy;
    error = std::abs(dy) * (0.5 * reach(i) + roundings(12) * (1 + std::abs(value)));
    return dy * s * (1 + value * (1 - s));
  }

  void expect_all() const {
    EXPECT_TRUE(lies_within(at.y, [&](std::int64_t i) {
      const double value = sum(i);
      if (!c.silu) return around(value, reach(i));
      return around(value / (1 + std::exp(-value)), 1.1 * reach(i) + roundings(12) * std::abs(value));
    }));
    EXPECT_TRUE(lies_within(at.dx, [&](std::int64_t i) {
      double total = 0, error = 0, size = 0;
      for (std::int64_t distance = 0; distance < c.taps; ++distance) {
        const std::int64_t later = i + distance * c.dilation * c.channels;
        if (later >= tokens * c.channels || !sees(later / c.channels, distance)) continue;
        double term_error = 0;
        const double term = weight(i % c.channels, distance) * upstream(later, term_error);
        total += term;
        size += std::abs(term);
        error += std::abs(weight(i % c.channels, distance)) * term_error;
      }
      return around(total, error + roundings(static_cast<double>(2 * c.taps)) * size);
    }));
    const Data start(DType::f32, {c.channels, 1, c.taps}, 44);
    EXPECT_TRUE(lies_within(at.dw, [&](std::int64_t i) {
      const std::int64_t n = i / c.taps, distance = c.taps - 1 - i % c.taps;
      double total = start.at(i), error = 0, size = std::abs(total);
      for (std::int64_t t = distance * c.dilation; t < tokens; ++t) {
        if (!sees(t, distance)) continue;
        double term_error = 0;
        const double x = at.x.at((t - distance * c.dilation) * c.channels + n), term = upstream(t * c.channels + n, term_error) * x;
        total += term;
        size += std::abs(term);
        error += term_error * std::abs(x);
      }
      return around(total, error + roundings(static_cast<double>(tokens) + 2) * size);
    }));
  }
  const ConvolutionResults& at;
  ConvolutionCase c;
  std::int64_t tokens;
  std::vector<tests::Interval> sums;
};

TEST(ShortConvolution, MatchesTheDefinitionForAnyThreadCount) {
  for (const ConvolutionCase& c : kConvolutionCases) {
    SCOPED_TRACE(describe(c));
    ThreadTeam one(1);
    const ConvolutionResults expected(ExecutionContext(one, Implementation::reference), c), found(fast(one), c);
    for (const ConvolutionResults* results : {&expected, &found}) ConvolutionTruth(*results).expect_all();
    for (const int threads : {2, 3}) {
      ThreadTeam team(threads);
      const ConvolutionResults many(fast(team), c);
      EXPECT_TRUE(same_bits(found.y, many.y));
      EXPECT_TRUE(same_bits(found.dx, many.dx));
      EXPECT_TRUE(same_bits(found.dw, many.dw));
    }
  }
}

// Tokens 1, 2, 3, 4 with weights 1, 10, 100, 1000: the last weight is that of the token itself.
TEST(ShortConvolution, TheLastTapIsTheTokenItself) {
  ThreadTeam team(1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data x(DType::f32, {4, 1}), w(DType::f32, {1, 4}), y(DType::f32, {4, 1}), segments(DType::i32, {4});
    for (std::int64_t i = 0; i < 4; ++i) x.set(i, static_cast<double>(i + 1)), w.set(i, std::pow(10.0, i));
    short_convolution_forward(stream_of(team, implementation), *x, *w, *segments, {.sequence = 4}, *y);
    EXPECT_EQ(y.get(0), 1000);
    EXPECT_EQ(y.get(1), 2100);
    EXPECT_EQ(y.get(3), 4321);
    segments.set(2, 7);
    segments.set(3, 7);
    short_convolution_forward(stream_of(team, implementation), *x, *w, *segments, {.sequence = 4}, *y);
    EXPECT_EQ(y.get(1), 2100);
    EXPECT_EQ(y.get(2), 3000);
    EXPECT_EQ(y.get(3), 4300);
    short_convolution_forward(stream_of(team, implementation), *x, *w, *segments, {.sequence = 4, .one_segment = true}, *y);
    EXPECT_EQ(y.get(3), 4321);
    short_convolution_forward(stream_of(team, implementation), *x, *w, *segments, {.sequence = 4, .one_segment = true, .dilation = 2}, *y);
    EXPECT_EQ(y.get(1), 2000);
    EXPECT_EQ(y.get(2), 3100);
    EXPECT_EQ(y.get(3), 4200);
  }
}

TEST(ShortConvolution, GradientsAreSlopes) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  for (const bool silu : {false, true}) {
    ConvolutionResults run(context, {2, 9, 3, 4, DType::f32, DType::f32, silu, 5});
    const Data start(DType::f32, {3, 1, 4}, 44);
    const auto objective = [&] {
      Data y(DType::f32, {18, 3});
      short_convolution_forward(context, *run.x, *run.w, *run.segments, run.options(), *y);
      double sum = 0;
      for (std::int64_t i = 0; i < y.elements(); ++i) sum += y.get(i) * run.dy.get(i);
      return sum;
    };
    const auto slope = [&](Data& operand, std::int64_t i) { return slope_along(operand, i, 0x1p-7, objective); };
    // Eighteen fp32 results of a few units over twice the step give 3e-4; third derivatives of SiLU times the step's square are 1e-4.
    for (std::int64_t i = 0; i < run.x.elements(); ++i) EXPECT_NEAR(run.dx.get(i), slope(run.x, i), 1e-3) << i;
    for (std::int64_t i = 0; i < run.w.elements(); ++i) EXPECT_NEAR(run.dw.get(i) - start.get(i), slope(run.w, i), 2e-3) << i;
  }
}

TEST(ShortConvolution, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  Data x(DType::f32, {6, 5}), y(DType::f32, {6, 5}), w(DType::f32, {5, 1, 4}), segments(DType::i32, {6});
  const Data other(DType::f32, {4, 1, 4}), half(DType::bf16, {5, 1, 4}), two(DType::f32, {5, 2, 4}), wide(DType::f32, {5, 1, 17});
  constexpr int internal = static_cast<int>(ExitCode::internal);
  const auto call = [&](const Data& weights, std::int64_t sequence) {
    return thrown([&] { short_convolution_forward(fast(team), *x, *weights, *segments, {.sequence = sequence}, *y); });
  };
  EXPECT_EQ(call(w, 3), -1);
  EXPECT_EQ(call(w, 4), internal);
  EXPECT_EQ(call(other, 3), internal);
  EXPECT_EQ(call(half, 3), internal);
  EXPECT_EQ(call(two, 3), internal);
  EXPECT_EQ(call(wide, 3), static_cast<int>(ExitCode::config));
  for (const std::int64_t dilation : {0, 21, 22})
    EXPECT_EQ(thrown([&] { short_convolution_forward(fast(team), *x, *w, *segments, {.sequence = 3, .dilation = dilation}, *y); }),
              dilation == 21 ? -1 : static_cast<int>(ExitCode::config))
        << dilation;
  EXPECT_EQ(thrown([&] { short_convolution_weight_gradient(fast(team), *x, *x, *w, *segments, {.sequence = 3}, *other); }), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
