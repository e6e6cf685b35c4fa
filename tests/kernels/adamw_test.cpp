#include "kernels/adamw.hpp"

#include <vector>

#include "tests/kernels/adam_state.hpp"
#include "tests/kernels/fixture.hpp"

namespace millrace::kernels {
namespace {

using testing::Data;
using testing::fast;
using testing::lies_within;
using testing::stored_as;
using testing::stream_of;

struct AdamwState : testing::AdamState {
  using AdamState::AdamState;
  void update(const ExecutionContext& context, const AdamwScalars& scalars) const { update(context, scalars, tensors()); }
  static void update(const ExecutionContext& context, const AdamwScalars& scalars, const OptimizerTensors& tensors) {
    adamw(context, scalars, {&tensors, 1});
  }
};

TEST(Adamw, FollowsTheWorkedExample) {
  // p = 1, lr 0.01, no decay, ε 1e-8, β 0.9 and 0.95, gradients 0.5, −0.25, 0.1.
  ThreadTeam team(1);
  for (const auto implementation : {Implementation::fast, Implementation::reference}) {
    Data p(DType::f32, {1}), m(DType::f32, {1}), v(DType::f32, {1}), gradient(DType::f32, {1}), copy(DType::bf16, {1});
    p.set(0, 1.0);
    const double wanted_m[] = {0.05, 0.02, 0.028}, wanted_v[] = {0.0125, 0.015, 0.01475}, gradients[] = {0.5, -0.25, 0.1};
    // Decay 0.1 multiplies p by 0.999 before each step: 0.989000, 0.985327 and 0.981129 to seven digits.
    const double wanted_p[] = {0.9890000002, 0.9853273058, 0.9811291278};
    for (int t = 0; t < 3; ++t) {
      gradient.set(0, gradients[t]);
      AdamwState::update(stream_of(team, implementation), {.learning_rate = 0.01, .weight_decay = 0.1, .update = t + 1},
                         {*p, *gradient, *copy, {*m, *v}});
      // Each step rounds p twice and the update, which is a hundredth of it, about ten times; m and v are rounded three times.
      EXPECT_NEAR(p.get(0), wanted_p[t], tests::roundings(3 * t + 3));
      EXPECT_NEAR(m.get(0), wanted_m[t], tests::roundings(3 * t + 3) * 0.05);
      EXPECT_NEAR(v.get(0), wanted_v[t], tests::roundings(3 * t + 3) * 0.015);
      EXPECT_EQ(gradient.get(0), 0.0);
      EXPECT_EQ((*copy).as<BFloat16>()[0].bits, to_bfloat16((*p).as<float>()[0]).bits);
    }
  }
}

// The vector of spec/training.md 11: gradients 0.5, then −0.25, give the directions 1.47368418 and −0.16612168.
TEST(Adamw, FollowsTheWorkedExampleOfNesterov) {
  ThreadTeam team(1);
  for (const auto implementation : {Implementation::fast, Implementation::reference}) {
    Data p(DType::f32, {1}), m(DType::f32, {1}), v(DType::f32, {1}), gradient(DType::f32, {1}), copy(DType::bf16, {1});
    const double gradients[] = {0.5, -0.25}, directions[] = {1.47368418, -0.16612168};
    for (int t = 0; t < 2; ++t) {
      p.set(0, 0.0);
      gradient.set(0, gradients[t]);
      AdamwState::update(stream_of(team, implementation), {.learning_rate = 1, .update = t + 1, .nesterov = true},
                         {*p, *gradient, *copy, {*m, *v}});
      EXPECT_NEAR(p.get(0), -directions[t], 2e-7);
    }
  }
}

// Every scalar must be used in its place: epsilon and the betas differ enough that swapping two changes the result.
TEST(Adamw, IsItsFormula) {
  const AdamwScalars scalars{
      .learning_rate = 0.03, .beta1 = 0.7, .beta2 = 0.9, .epsilon = 0.05, .weight_decay = 0.4, .gradient_scale = 0.37F, .update = 3};
  ThreadTeam team(2);
  for (const auto implementation : {Implementation::fast, Implementation::reference}) {
    const AdamwState before(37);
    AdamwState after(37);
    after.update(stream_of(team, implementation), scalars);
    const auto g = [&](std::int64_t i) { return before.gradient.at(i) * static_cast<double>(scalars.gradient_scale); };
    const auto m = [&](std::int64_t i) { return 0.7 * before.m.at(i) + 0.3 * g(i); };
    const auto v = [&](std::int64_t i) { return 0.9 * before.v.at(i) + 0.1 * g(i) * g(i); };
    // A product of rounded factors has three roundings, and a sum one more.
    EXPECT_TRUE(lies_within(after.m, [&](std::int64_t i) {
      return tests::around(m(i), tests::roundings(5) * (0.7 * std::abs(before.m.at(i)) + 0.3 * std::abs(g(i))));
    }));
    EXPECT_TRUE(lies_within(after.v, [&](std::int64_t i) { return tests::around(v(i), tests::roundings(6) * v(i)); }));
    EXPECT_TRUE(lies_within(after.p, [&](std::int64_t i) {
      const double kept = before.p.at(i) * (1 - 0.03 * 0.4);
      const double denominator = std::sqrt(v(i)) / std::sqrt(1 - std::pow(0.9, 3)) + 0.05;
      const double step = 0.03 / (1 - std::pow(0.7, 3)) / denominator;
      const double size = step * (0.7 * std::abs(before.m.at(i)) + 0.3 * std::abs(g(i)));
      return tests::around(kept - step * m(i), tests::roundings(3) * std::abs(kept) + tests::roundings(16) * size);
    }));
  }
}

TEST(Adamw, HasTheBitsOfTheReferenceOnAnyThreads) {
  for (const int threads : {1, 2, 3}) {
    ThreadTeam team(threads);
    for (const std::int64_t size : {1, 15, 16, 4097, 597 * 43}) {
      const AdamwScalars scalars{
          .learning_rate = 3e-4, .weight_decay = 0.1, .gradient_scale = 0.37F, .update = 5, .nesterov = size % 2 == 0};
      AdamwState found(size), reference(size);
      found.update(fast(team), scalars);
      reference.update(ExecutionContext(team, Implementation::reference), scalars);
      EXPECT_TRUE(same_bits(found.p, reference.p)) << size;
      EXPECT_TRUE(same_bits(found.m, reference.m));
      EXPECT_TRUE(same_bits(found.v, reference.v));
      EXPECT_TRUE(same_bits(found.copy, reference.copy));
      EXPECT_TRUE(same_bits(found.gradient, Data(DType::f32, {size})));
    }
  }
}

// The update uses the first moment before it is rounded: with one step from zero, parameters are those of an f32 moment.
TEST(Adamw, RoundsABf16MomentAfterItsUse) {
  ThreadTeam team(2);
  for (const auto implementation : {Implementation::fast, Implementation::reference}) {
    const AdamwScalars scalars{.learning_rate = 0.1, .weight_decay = 0.1, .update = 1};
    AdamwState wide(1000), narrow(1000);
    Data wide_moment(DType::f32, {1000}), moment(DType::bf16, {1000});
    const auto context = stream_of(team, implementation);
    for (int step = 0; step < 2; ++step) {
      for (std::int64_t i = 0; i < 1000; ++i) {
        wide.gradient.set(i, std::sin(static_cast<double>(i + step)));
        narrow.gradient.set(i, std::sin(static_cast<double>(i + step)));
        wide_moment.set(i, moment.get(i));  // which is what the second step begins with
      }
      AdamwState::update(context, scalars, {*wide.p, *wide.gradient, {}, {*wide_moment, *wide.v}});
      AdamwState::update(context, scalars, {*narrow.p, *narrow.gradient, {}, {*moment, *narrow.v}});
      EXPECT_TRUE(same_bits(narrow.p, wide.p)) << step;
      EXPECT_TRUE(same_bits(narrow.v, wide.v)) << step;
      for (std::int64_t i = 0; i < 1000; ++i) EXPECT_EQ(moment.get(i), stored_as(DType::bf16, wide_moment.get(i))) << i;
    }
  }
}

TEST(Adamw, WorksWithoutACopyAndScalesTheGradient) {
  ThreadTeam team(2);
  AdamwState scaled(100), plain(100);
  for (std::int64_t i = 0; i < 100; ++i) plain.gradient.set(i, 0.5 * plain.gradient.get(i));
  AdamwState::update(fast(team), {.learning_rate = 0.1, .gradient_scale = 0.5F}, {*scaled.p, *scaled.gradient, {}, {*scaled.m, *scaled.v}});
  plain.update(fast(team), {.learning_rate = 0.1});
  EXPECT_TRUE(same_bits(scaled.p, plain.p));
}

TEST(Adamw, DoesForManyWhatItDoesForEach) {
  const AdamwScalars scalars{.learning_rate = 3e-3, .weight_decay = 0.1, .gradient_scale = 0.37F, .update = 5};
  AdamwScalars without_decay = scalars;
  without_decay.weight_decay = 0;
  const auto size_of_number = [](std::int64_t i) { return i % 40 == 0 ? 50'000 + i : 1 + i * 37 % 700; };
  for (const int threads : {1, 3}) {
    ThreadTeam team(threads);
    for (const std::int64_t count : {0, 1, 3, 150}) {
      std::vector<AdamwState> found, wanted;
      found.reserve(150);
      wanted.reserve(150);
      std::vector<OptimizerTensors> tensors;
      for (std::int64_t i = 0; i < count; ++i) {
        AdamwState& state = found.emplace_back(size_of_number(i));
        tensors.push_back({*state.p, *state.gradient, i % 3 == 0 ? Tensor{} : *state.copy, {*state.m, *state.v}, i % 4 != 1});
        AdamwState& alone = wanted.emplace_back(size_of_number(i));
        AdamwState::update(ExecutionContext(team, Implementation::reference), i % 4 != 1 ? scalars : without_decay,
                           {*alone.p, *alone.gradient, i % 3 == 0 ? Tensor{} : *alone.copy, {*alone.m, *alone.v}});
      }
      adamw(fast(team), scalars, tensors);
      for (std::size_t i = 0; i < tensors.size(); ++i)
        for (const auto member : {&AdamwState::p, &AdamwState::m, &AdamwState::v, &AdamwState::gradient, &AdamwState::copy})
          EXPECT_TRUE(same_bits(found[i].*member, wanted[i].*member)) << i << " of " << count;
    }
  }
}

TEST(Adamw, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  AdamwState state(8);
  const Data other(DType::f32, {9});
  const int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(testing::thrown([&] { state.update(fast(team), {.update = 0}); }), internal);
  const auto refuses = [&](const OptimizerTensors& tensors) {
    return testing::thrown([&] { AdamwState::update(fast(team), {}, tensors); }) == internal;
  };
  EXPECT_TRUE(refuses({*state.p, *state.gradient, *state.copy, {*other, *state.v}}));
  EXPECT_TRUE(refuses({*state.p, *state.gradient, *state.copy, {*state.m, *other}}));
  EXPECT_TRUE(refuses({*state.p, *other, *state.copy, {*state.m, *state.v}}));
  EXPECT_TRUE(refuses({*state.p, *state.gradient, *state.p, {*state.m, *state.v}}));
  EXPECT_TRUE(refuses({*state.p, *state.gradient, *state.copy, {*state.m}}));
}

}  // namespace
}  // namespace millrace::kernels
