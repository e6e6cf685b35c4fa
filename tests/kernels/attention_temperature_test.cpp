#include "kernels/attention_temperature.hpp"

#include <cmath>
#include <utility>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::roundings;

struct TemperatureOperands {
  TemperatureOperands(DType dtype, std::int64_t tokens, std::int64_t width)
      : x(dtype, {tokens, width}, 1), positions(DType::i32, {tokens}) {
    for (std::int64_t t = 0; t < tokens; ++t) positions.set(t, static_cast<double>(t * t * 37 % 100003));
    positions.set(tokens - 1, 2147483647);
  }
  Data x, positions;
};

double factor_at(double position, AttentionTemperatureOptions options) {
  return 1 +
         static_cast<double>(options.attention_scale) * std::log(std::floor((position + 1) / static_cast<double>(options.floor_scale)) + 1);
}

TEST(AttentionTemperature, MatchesReferenceForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t tokens : {1, 5, 131})
      for (const std::int64_t width : {1, 8, 33, 300})
        for (const AttentionTemperatureOptions options : {AttentionTemperatureOptions{}, {0.25F, 7}, {1.5F, 1}}) {
          SCOPED_TRACE(::testing::Message() << tokens << " x " << width << " " << to_string(dtype) << " " << options.floor_scale);
          const TemperatureOperands in(dtype, tokens, width);
          ThreadTeam one(1);
          Data expected(dtype, (*in.x).shape), found(dtype, (*in.x).shape);
          attention_temperature(ExecutionContext(one, Implementation::reference), *in.x, *in.positions, options, *expected);
          attention_temperature(fast(one), *in.x, *in.positions, options, *found);
          // A logarithm of at most two units, a product, a sum, and the product with x.
          for (const Data* y : {&expected, &found})
            EXPECT_TRUE(lies_within(*y, [&](std::int64_t i) {
              const double exact = in.x.at(i) * factor_at(in.positions.at(i / width), options);
              return around(exact, roundings(5) * std::abs(exact));
            }));
          for (const int threads : {2, 3}) {
            ThreadTeam team(threads);
            Data many(in.x);  // in place
            attention_temperature(fast(team), *many, *in.positions, options, *many);
            EXPECT_TRUE(same_bits(many, found));
          }
        }
}

// 1 + 0.1·ln(n) of Llama 4 to ten digits: a step comes exactly one position before a multiple of floor_scale. The results are rounded to
// fp32, whose numbers above 1 are 1.2e-7 apart, and so are two of their operands.
TEST(AttentionTemperature, RisesWhereLlama4Does) {
  ThreadTeam team(1);
  const std::pair<double, double> golden[] = {
      {0, 1}, {8190, 1}, {8191, 1.0693147181}, {16382, 1.0693147181}, {16383, 1.1098612289}, {131071, 1.2833213344}};
  Data x(DType::f32, {6, 1}), positions(DType::i32, {6});
  for (std::int64_t t = 0; t < 6; ++t) {
    x.set(t, 1);
    positions.set(t, golden[t].first);
  }
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    Data y(DType::f32, {6, 1});
    attention_temperature(stream_of(team, implementation), *x, *positions, {}, *y);
    for (std::int64_t t = 0; t < 6; ++t) EXPECT_NEAR(y.get(t), golden[t].second, 3e-7) << golden[t].first;
    EXPECT_EQ(y.get(1), 1);
  }
}

TEST(AttentionTemperature, RefusesOtherShapes) {
  ThreadTeam team(1);
  Data x(DType::f32, {4, 8}), positions(DType::i32, {4}), five(DType::i32, {5}), narrow(DType::f32, {4, 7});
  const auto call = [&](const Tensor& p, AttentionTemperatureOptions options, const Tensor& y) {
    return thrown([&] { attention_temperature(fast(team), *x, p, options, y); });
  };
  EXPECT_EQ(call(*positions, {}, *x), -1);
  EXPECT_EQ(call(*five, {}, *x), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*positions, {}, *narrow), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*positions, {0.1F, 0}, *x), static_cast<int>(ExitCode::config));
}

}  // namespace
}  // namespace millrace::kernels::testing
