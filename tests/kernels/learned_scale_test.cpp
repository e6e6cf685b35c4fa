#include "kernels/learned_scale.hpp"

#include <cmath>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::roundings;

/// x with one number for all elements if `numbers` is 0, else with one of several for each.
struct LearnedScaleOperands {
  LearnedScaleOperands(DType dtype, std::int64_t tokens, std::int64_t width, std::int64_t numbers)
      : x(dtype, {tokens, width}, 1),
        dy(dtype, {tokens, width}, 2),
        scales(DType::f32, {std::max<std::int64_t>(numbers, 1)}, 3),
        which(DType::i32, {tokens, width}),
        several(numbers > 0) {
    for (std::int64_t i = 0; several && i < which.elements(); ++i) which.set(i, static_cast<double>((i * 7 + i / 3) % numbers));
  }
  [[nodiscard]] const Tensor* choice() const { return several ? &*which : nullptr; }
  [[nodiscard]] std::int64_t number_of(std::int64_t i) const { return static_cast<std::int64_t>(which.at(i)); }
  Data x, dy, scales, which;
  bool several;
};

/// Numbers that were there before are added to.
Data gradient_of(const ExecutionContext& context, const LearnedScaleOperands& in) {
  Data d_scales(in.scales);
  learned_scale_weight_gradient(context, *in.dy, *in.x, in.choice(), *d_scales);
  return d_scales;
}

TEST(LearnedScale, MatchesItsDefinitionForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t tokens : {1, 5, 131})
      for (const std::int64_t width : {1, 8, 33, 300})
        for (const std::int64_t numbers : {0, 1, 5, 40}) {
          SCOPED_TRACE(::testing::Message() << tokens << " x " << width << " " << to_string(dtype) << ", " << numbers);
          const LearnedScaleOperands in(dtype, tokens, width, numbers);
          ThreadTeam one(1);
          Data found(dtype, (*in.x).shape), plain(dtype, (*in.x).shape);
          learned_scale(ExecutionContext(one, Implementation::reference), *in.x, *in.scales, in.choice(), *plain);
          learned_scale(fast(one), *in.x, *in.scales, in.choice(), *found);
          EXPECT_TRUE(same_bits(found, plain));
          EXPECT_TRUE(lies_within(found, [&](std::int64_t i) {
            const double exact = in.x.at(i) * in.scales.at(in.number_of(i));
            return around(exact, roundings(1) * std::abs(exact));
          }));
          const Data gradient = gradient_of(fast(one), in), expected = gradient_of(ExecutionContext(one, Implementation::reference), in);
          for (std::int64_t n = 0; n < gradient.elements(); ++n) {
            double sum = in.scales.get(n), size = std::abs(sum);
            for (std::int64_t i = 0; i < in.x.elements(); ++i)
              if (in.number_of(i) == n) sum += in.x.at(i) * in.dy.at(i), size += std::abs(in.x.at(i) * in.dy.at(i));
            // The sum is in double, and rounded where it is added to what was there.
            EXPECT_NEAR(gradient.get(n), sum, 2e-7 * size) << n;
            EXPECT_NEAR(expected.get(n), sum, 2e-7 * size) << n;
          }
          for (const int threads : {2, 3}) {
            ThreadTeam team(threads);
            Data many(in.x);  // in place
            learned_scale(fast(team), *many, *in.scales, in.choice(), *many);
            EXPECT_TRUE(same_bits(many, found));
            EXPECT_TRUE(same_bits(gradient_of(fast(team), in), gradient));
          }
        }
}

/// Terms that cancel leave what fp32 would lose.
TEST(LearnedScale, SumsInDouble) {
  ThreadTeam team(1);
  Data x(DType::f32, {2, 3}), dy(DType::f32, {2, 3}), sum(DType::f32, {1});
  const double values[] = {3e4, 1.25e-4, -3e4, 1e4, 2.5e-4, -1e4};
  for (std::int64_t i = 0; i < 6; ++i) x.set(i, values[i]), dy.set(i, 1);
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    sum.set(0, 0);
    learned_scale_weight_gradient(stream_of(team, implementation), *dy, *x, nullptr, *sum);
    EXPECT_NEAR(sum.get(0), 3.75e-4, 1e-10);
  }
}

TEST(LearnedScale, RefusesOtherShapes) {
  ThreadTeam team(1);
  Data x(DType::f32, {4, 2}), one(DType::f32, {1}), three(DType::f32, {3}), which(DType::i32, {4, 2}), narrow(DType::i32, {4, 1});
  const auto call = [&](const Tensor& scales, const Tensor* choice) {
    return thrown([&] { learned_scale(fast(team), *x, scales, choice, *x); });
  };
  EXPECT_EQ(call(*one, nullptr), -1);
  EXPECT_EQ(call(*three, &*which), -1);
  EXPECT_EQ(call(*three, nullptr), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(call(*three, &*narrow), static_cast<int>(ExitCode::internal));
  for (const double number : {-1.0, 3.0}) {
    which.set(5, number);
    EXPECT_EQ(thrown([&] {
                learned_scale(fast(team), *x, *three, &*which, *x);
                wait();
              }),
              static_cast<int>(ExitCode::internal));
  }
}

}  // namespace
}  // namespace millrace::kernels::testing
