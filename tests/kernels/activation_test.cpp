#include "kernels/activation.hpp"

#include <numbers>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

constexpr Activation kActivations[] = {Activation::silu, Activation::gelu, Activation::relu};

struct Results {
  Results(const Stream& stream, Activation activation, DType dtype, const Shape& shape)
      : gate(dtype, shape, 41, 8.0F),
        up(dtype, shape, 42),
        dy(dtype, shape, 43),
        y(dtype, shape),
        d_gate(dtype, shape),
        d_up(dtype, shape),
        alone(dtype, shape),
        d_alone(dtype, shape) {
    glu_forward(stream, activation, *gate, *up, *y);
    glu_input_gradient(stream, activation, *dy, *gate, *up, *d_gate, *d_up);
    activation_forward(stream, activation, *gate, *alone);
    activation_input_gradient(stream, activation, *dy, *gate, *d_alone);
  }
  Data gate, up, dy, y, d_gate, d_up, alone, d_alone;
};

constexpr auto kMembers = {&Results::y, &Results::d_gate, &Results::d_up, &Results::alone, &Results::d_alone};

TEST(Activation, MatchesReferenceForAnyThreadCount) {
  for (const Activation activation : kActivations)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Shape& shape : {Shape{1, 1}, Shape{3, 21}, Shape{40, 130}}) {
        SCOPED_TRACE(to_string(shape));
        ThreadTeam one(1);
        const Results wanted(Stream(one, Implementation::reference), activation, dtype, shape);
        const Results found(fast(one), activation, dtype, shape);
        for (const auto member : kMembers) EXPECT_TRUE(near(found.*member, wanted.*member, tolerance(dtype), 1e-6));
        for (const int threads : {2, 3}) {
          ThreadTeam team(threads);
          const Results many(fast(team), activation, dtype, shape);
          for (const auto member : kMembers) EXPECT_TRUE(same_bits(found.*member, many.*member));
        }
      }
}

TEST(Activation, EndsOfTheRange) {
  ThreadTeam team(1);
  const double inputs[] = {-200, 0, 200, 1, -1e-4, 1e-4};
  const double slope = std::sqrt(2 / std::numbers::pi);
  const auto gelu = [&](double x) { return 0.5 * x * (1 + std::tanh(slope * (x + 0.044715 * x * x * x))); };
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data gate(DType::f32, {6}), up(DType::f32, {6}), y(DType::f32, {6});
    for (std::int64_t i = 0; i < 6; ++i) {
      gate.set(i, inputs[i]);
      up.set(i, 2);
    }
    glu_forward(stream_of(team, implementation), Activation::silu, *gate, *up, *y);
    EXPECT_NEAR(y.get(0), 0, 1e-30);
    EXPECT_EQ(y.get(1), 0);
    EXPECT_EQ(y.get(2), 400);
    EXPECT_NEAR(y.get(3), 2 / (1 + std::exp(-1.0)), 1e-6);
    glu_forward(stream_of(team, implementation), Activation::gelu, *gate, *up, *y);
    EXPECT_EQ(y.get(0), 0);
    EXPECT_EQ(y.get(1), 0);
    EXPECT_EQ(y.get(2), 400);
    for (std::int64_t i = 3; i < 6; ++i) EXPECT_NEAR(y.get(i), 2 * gelu(inputs[i]), 1e-6 * std::abs(inputs[i])) << i;
  }
}

TEST(Activation, GradientsAreSlopes) {
  ThreadTeam team(1);
  const Stream stream = fast(team);
  for (const Activation activation : kActivations) {
    Results run(stream, activation, DType::f32, {40});
    constexpr double step = 1e-2;
    const auto slope = [&](Data& operand, std::int64_t i, bool gated) {
      Data y(DType::f32, {40});
      const auto forward = [&] {
        if (gated)
          glu_forward(stream, activation, *run.gate, *run.up, *y);
        else
          activation_forward(stream, activation, *run.gate, *y);
        return y.get(i);
      };
      const double value = operand.get(i);
      operand.set(i, value + step);
      const double above = forward();
      operand.set(i, value - step);
      const double below = forward();
      operand.set(i, value);
      return run.dy.get(i) * (above - below) / (2 * step);
    };
    for (std::int64_t i = 0; i < 40; ++i) {
      EXPECT_NEAR(run.d_gate.get(i), slope(run.gate, i, true), 1e-3) << i;
      EXPECT_NEAR(run.d_up.get(i), slope(run.up, i, true), 1e-3) << i;
      EXPECT_NEAR(run.d_alone.get(i), slope(run.gate, i, false), 1e-3) << i;
    }
  }
}

TEST(Activation, RefusesOtherShapes) {
  ThreadTeam team(1);
  Data gate(DType::f32, {4}), up(DType::f32, {5});
  EXPECT_EQ(thrown([&] { glu_forward(fast(team), Activation::silu, *gate, *up, *gate); }), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(thrown([&] { activation_forward(fast(team), Activation::gelu, *gate, *up); }), static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace millrace::kernels::testing
