#include "kernels/clamped_glu.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::fp32_roundoff;

constexpr ClampedGluOptions kForms[] = {
    {.limit = 7.0F, .steepness = 1.702F, .offset = 1.0F}, {.limit = 2.5F}, {.limit = 0.75F, .steepness = 0.5F, .offset = -0.25F}};

/// Operands of which about a half lie beyond the limit, a few exactly on it.
struct ClampedResults {
  ClampedResults(const ExecutionContext& context, DType dtype, Shape shape, ClampedGluOptions form)
      : options(form),
        gate(dtype, shape, 41, 2 * form.limit),
        up(dtype, shape, 42, 2 * form.limit),
        dy(dtype, shape, 43),
        y(dtype, shape),
        d_gate(dtype, shape),
        d_up(dtype, shape) {
    for (std::int64_t i = 0; i < y.elements(); i += 11) gate.set(i, form.limit), up.set(y.elements() - 1 - i, -form.limit);
    clamped_glu_forward(context, *gate, *up, options, *y);
    clamped_glu_input_gradient(context, *dy, *gate, *up, options, *d_gate, *d_up);
    wait();
  }
  ClampedGluOptions options;
  Data gate, up, dy, y, d_gate, d_up;
};

// The sigmoid has the exponential's two units, which are four roundoffs, those of its argument's rounding, times its size, and two more;
// products and the sum with the offset one each. The bracket of the slope cancels, so that its terms count.
void expect_formulas(const ClampedResults& at) {
  const double limit = at.options.limit, steepness = at.options.steepness, offset = at.options.offset;
  struct Point {
    double g, u, s, error;
  };
  const auto point = [&](std::int64_t i) {
    const double g = std::min(at.gate.at(i), limit), u = std::clamp(at.up.at(i), -limit, limit);
    return Point{g, u, 1 / (1 + std::exp(-steepness * g)), (12 + std::abs(steepness * g)) * fp32_roundoff};
  };
  EXPECT_TRUE(lies_within(at.y, [&](std::int64_t i) {
    const Point p = point(i);
    const double y = (p.u + offset) * p.g * p.s;
    return around(y, std::abs(p.g * p.s) * (std::abs(p.u) + std::abs(offset)) * p.error);
  }));
  EXPECT_TRUE(lies_within(at.d_up, [&](std::int64_t i) {
    const Point p = point(i);
    const double d_up = std::abs(at.up.at(i)) <= limit ? at.dy.at(i) * p.g * p.s : 0;
    return around(d_up, std::abs(d_up) * p.error);
  }));
  EXPECT_TRUE(lies_within(at.d_gate, [&](std::int64_t i) {
    const Point p = point(i);
    if (at.gate.at(i) > limit) return around(0, 0);
    const double size = std::abs(at.dy.at(i)) * p.s * (std::abs(p.u) + std::abs(offset));
    const double d_gate = at.dy.at(i) * (p.u + offset) * p.s * (1 + steepness * p.g * (1 - p.s));
    return around(d_gate, size * (1 + std::abs(steepness * p.g)) * 2 * p.error);
  }));
}

TEST(ClampedGlu, MatchesTheFormulasForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const ClampedGluOptions& form : kForms)
      for (const Shape& shape : {Shape{1, 1}, Shape{3, 33}, Shape{67, 55}}) {
        SCOPED_TRACE(::testing::Message() << to_string(shape) << " " << to_string(dtype) << " limit " << form.limit);
        ThreadTeam one(1);
        expect_formulas(ClampedResults(ExecutionContext(one, Implementation::reference), dtype, shape, form));
        const ClampedResults found(fast(one), dtype, shape, form);
        expect_formulas(found);
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          const ClampedResults many(fast(team), dtype, shape, form);
          for (const auto member : {&ClampedResults::y, &ClampedResults::d_gate, &ClampedResults::d_up})
            EXPECT_TRUE(same_bits(found.*member, many.*member));
        }
      }
}

TEST(ClampedGlu, GradientsAreSlopes) {
  ThreadTeam team(1);
  const ExecutionContext context(team, Implementation::reference);
  for (const ClampedGluOptions& form : kForms) {
    ClampedResults run(fast(team), DType::f32, {3, 7}, form);
    // No operand within a step of a limit, where there is no slope.
    for (Data* operand : {&run.gate, &run.up})
      for (std::int64_t i = 0; i < operand->elements(); ++i)
        if (std::abs(std::abs(operand->get(i)) - form.limit) < 0.02) operand->set(i, 0.6 * form.limit);
    clamped_glu_input_gradient(fast(team), *run.dy, *run.gate, *run.up, form, *run.d_gate, *run.d_up);
    const auto objective = [&] {
      clamped_glu_forward(context, *run.gate, *run.up, form, *run.y);
      double sum = 0;
      for (std::int64_t i = 0; i < run.y.elements(); ++i) sum += run.y.get(i) * run.dy.get(i);
      return sum;
    };
    // Values of up to 56 in fp32 over twice the step give 6e-4; the third derivative times its square over six is below 1e-3.
    for (std::int64_t i = 0; i < run.y.elements(); ++i) {
      EXPECT_NEAR(run.d_gate.get(i), slope_along(run.gate, i, 0x1p-7, objective), 2e-3) << i;
      EXPECT_NEAR(run.d_up.get(i), slope_along(run.up, i, 0x1p-7, objective), 2e-3) << i;
    }
  }
}

// Beyond the limits nothing grows, and a NaN is not hidden by them.
TEST(ClampedGlu, EndsOfTheRange) {
  ThreadTeam team(1);
  constexpr float huge = 3e38F, nan = std::numeric_limits<float>::quiet_NaN();
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    ClampedResults at(stream_of(team, implementation), DType::f32, {1, 5}, kForms[0]);
    const float gates[] = {huge, -huge, huge, nan, 1}, ups[] = {huge, huge, -huge, 1, nan};
    for (std::int64_t i = 0; i < 5; ++i) at.gate.set(i, gates[i]), at.up.set(i, ups[i]);
    clamped_glu_forward(stream_of(team, implementation), *at.gate, *at.up, at.options, *at.y);
    EXPECT_NEAR(at.y.get(0), 56, 1e-3);
    EXPECT_NEAR(at.y.get(1), 0, 1e-30);
    EXPECT_NEAR(at.y.get(2), -42, 1e-3);
    EXPECT_TRUE(std::isnan(at.y.get(3)));
    EXPECT_TRUE(std::isnan(at.y.get(4)));
  }
}

TEST(ClampedGlu, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  const ClampedResults good(fast(team), DType::f32, {4, 8}, kForms[0]);
  const Data wide(DType::f32, {4, 9}), half(DType::bf16, {4, 8});
  constexpr int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(thrown([&] { clamped_glu_forward(fast(team), *good.gate, *wide, good.options, *good.y); }), internal);
  EXPECT_EQ(thrown([&] { clamped_glu_forward(fast(team), *good.gate, *good.up, good.options, *half); }), internal);
  EXPECT_EQ(thrown([&] { clamped_glu_input_gradient(fast(team), *wide, *good.gate, *good.up, good.options, *good.d_gate, *good.d_up); }),
            internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
