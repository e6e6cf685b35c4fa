#include "kernels/swiglu.hpp"

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

struct Results {
  Results(const Stream& stream, DType dtype, const Shape& shape)
      : gate(dtype, shape, 41, 8.0F),
        up(dtype, shape, 42),
        dy(dtype, shape, 43),
        y(dtype, shape),
        d_gate(dtype, shape),
        d_up(dtype, shape) {
    swiglu_forward(stream, *gate, *up, *y);
    swiglu_input_gradient(stream, *dy, *gate, *up, *d_gate, *d_up);
  }
  Data gate, up, dy, y, d_gate, d_up;
};

TEST(Swiglu, MatchesReferenceForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 21}, Shape{40, 130}}) {
      SCOPED_TRACE(to_string(shape));
      ThreadTeam one(1);
      const Results wanted(Stream(one, Implementation::reference), dtype, shape);
      const Results found(Stream(one), dtype, shape);
      EXPECT_TRUE(near(found.y, wanted.y, tolerance(dtype), 1e-6));
      EXPECT_TRUE(near(found.d_gate, wanted.d_gate, tolerance(dtype), 1e-6));
      EXPECT_TRUE(near(found.d_up, wanted.d_up, tolerance(dtype), 1e-6));
      for (const int threads : {2, 3}) {
        ThreadTeam team(threads);
        const Results many(Stream(team), dtype, shape);
        EXPECT_TRUE(same_bits(found.y, many.y));
        EXPECT_TRUE(same_bits(found.d_gate, many.d_gate));
        EXPECT_TRUE(same_bits(found.d_up, many.d_up));
      }
    }
}

TEST(Swiglu, EndsOfTheRange) {
  ThreadTeam team(1);
  Data gate(DType::f32, {4}), up(DType::f32, {4}), y(DType::f32, {4});
  const double gates[] = {-200, 0, 200, 1};
  for (std::int64_t i = 0; i < 4; ++i) {
    gate.set(i, gates[i]);
    up.set(i, 2);
  }
  swiglu_forward(Stream(team), *gate, *up, *y);
  EXPECT_NEAR(y.get(0), 0, 1e-30);
  EXPECT_EQ(y.get(1), 0);
  EXPECT_EQ(y.get(2), 400);
  EXPECT_NEAR(y.get(3), 2 / (1 + std::exp(-1.0)), 1e-6);
}

TEST(Swiglu, GradientsAreSlopes) {
  ThreadTeam team(1);
  const Stream stream(team);
  Results run(stream, DType::f32, {40});
  constexpr double step = 1e-2;
  const auto slope = [&](Data& operand, std::int64_t i) {
    Data y(DType::f32, {40});
    const double value = operand.get(i);
    operand.set(i, value + step);
    swiglu_forward(stream, *run.gate, *run.up, *y);
    const double above = y.get(i);
    operand.set(i, value - step);
    swiglu_forward(stream, *run.gate, *run.up, *y);
    operand.set(i, value);
    return run.dy.get(i) * (above - y.get(i)) / (2 * step);
  };
  for (std::int64_t i = 0; i < 40; ++i) {
    EXPECT_NEAR(run.d_gate.get(i), slope(run.gate, i), 1e-3) << i;
    EXPECT_NEAR(run.d_up.get(i), slope(run.up, i), 1e-3) << i;
  }
}

TEST(Swiglu, RefusesOtherShapes) {
  ThreadTeam team(1);
  Data gate(DType::f32, {4}), up(DType::f32, {5});
  EXPECT_EQ(thrown([&] { swiglu_forward(Stream(team), *gate, *up, *gate); }), static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace millrace::kernels::testing
