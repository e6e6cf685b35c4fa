#include "kernels/adam_pax.hpp"

#include <vector>

#include "tests/kernels/adam_state.hpp"
#include "tests/kernels/fixture.hpp"

namespace millrace::kernels {
namespace {

using testing::Data;
using testing::fast;
using testing::lies_within;
using testing::stream_of;

struct AdamPaxState : testing::AdamState {
  using AdamState::AdamState;
  void update(const ExecutionContext& context, const AdamPaxScalars& scalars, bool decays = true) const {
    const OptimizerTensors own = tensors(decays);
    adam_pax(context, scalars, {&own, 1});
  }
};

TEST(AdamPax, FollowsTheWorkedExample) {
  // p = 1, lr 0.01, decay 0.1, β 0.9 and 0.95, gradients 0.5, −0.25, 0.1: the vectors of the specification, from double precision.
  const double d1[] = {0, 0.47368421, 0.63099631}, d2[] = {0, 0.48717949, 0.64943032};
  const double gradients[] = {0.5, -0.25, 0.1}, m_after[] = {0.5, 0.10526316, 0.10332103}, v_after[] = {0.25, 0.15384615, 0.10341805};
  const double p_after[] = {0.9890000002, 0.9853273058, 0.9811291278};
  for (int t = 0; t < 3; ++t) {
    EXPECT_NEAR(adam_pax_decay(0.9, t + 1), d1[t], 1e-8);
    EXPECT_NEAR(adam_pax_decay(0.95, t + 1), d2[t], 1e-8);
  }
  ThreadTeam team(1);
  for (const auto implementation : {Implementation::fast, Implementation::reference}) {
    Data p(DType::f32, {1}), m(DType::f32, {1}), v(DType::f32, {1}), gradient(DType::f32, {1}), copy(DType::bf16, {1});
    p.set(0, 1.0);
    for (int t = 0; t < 3; ++t) {
      gradient.set(0, gradients[t]);
      const OptimizerTensors tensors{*p, *gradient, *copy, {*m, *v}};
      adam_pax(stream_of(team, implementation), {.learning_rate = 0.01, .weight_decay = 0.1, .update = t + 1}, {&tensors, 1});
      EXPECT_NEAR(p.get(0), p_after[t], tests::roundings(3 * t + 3));
      EXPECT_NEAR(m.get(0), m_after[t], tests::roundings(4 * t + 4) * 0.5 + 1e-8);  // the vectors have eight digits
      EXPECT_NEAR(v.get(0), v_after[t], tests::roundings(4 * t + 4) * 0.25 + 1e-8);
      EXPECT_EQ(gradient.get(0), 0.0);
      EXPECT_EQ((*copy).as<BFloat16>()[0].bits, to_bfloat16((*p).as<float>()[0]).bits);
    }
  }
}

// Every scalar must be used in its place: the values differ so much that swapping two changes the result.
TEST(AdamPax, IsItsFormula) {
  const AdamPaxScalars scalars{
      .learning_rate = 0.03, .beta1 = 0.7, .beta2 = 0.9, .epsilon = 0.05, .weight_decay = 0.4, .gradient_scale = 0.37F, .update = 3};
  const double d1 = 0.7 * (1 - 0.49) / (1 - 0.343), d2 = 0.9 * (1 - 0.81) / (1 - 0.729);
  ThreadTeam team(2);
  for (const auto implementation : {Implementation::fast, Implementation::reference}) {
    for (const bool decays : {true, false}) {
      const AdamPaxState before(37);
      AdamPaxState after(37);
      after.update(stream_of(team, implementation), scalars, decays);
      const auto g = [&](std::int64_t i) { return before.gradient.at(i) * static_cast<double>(0.37F); };
      const auto m = [&](std::int64_t i) { return d1 * before.m.at(i) + (1 - d1) * g(i); };
      const auto v = [&](std::int64_t i) { return d2 * before.v.at(i) + (1 - d2) * g(i) * g(i); };
      const auto size = [&](std::int64_t i) { return d1 * std::abs(before.m.at(i)) + (1 - d1) * std::abs(g(i)); };
      EXPECT_TRUE(lies_within(after.m, [&](std::int64_t i) { return tests::around(m(i), tests::roundings(5) * size(i)); }));
      EXPECT_TRUE(lies_within(after.v, [&](std::int64_t i) { return tests::around(v(i), tests::roundings(6) * v(i)); }));
      EXPECT_TRUE(lies_within(after.p, [&](std::int64_t i) {
        const double kept = before.p.at(i) * (decays ? 1 - 0.03 * 0.4 : 1.0), scale = 0.03 / (std::sqrt(v(i)) + 0.05);
        return tests::around(kept - scale * m(i), tests::roundings(3) * std::abs(kept) + tests::roundings(14) * scale * size(i));
      }));
    }
  }
}

TEST(AdamPax, HasTheBitsOfTheReferenceOnAnyThreads) {
  const AdamPaxScalars scalars{.learning_rate = 3e-4, .weight_decay = 0.1, .gradient_scale = 0.37F, .update = 5};
  for (const int threads : {1, 2, 3}) {
    ThreadTeam team(threads);
    for (const std::int64_t size : {1, 15, 16, 4097, 597 * 43}) {
      AdamPaxState found(size), reference(size);
      found.update(fast(team), scalars);
      reference.update(ExecutionContext(team, Implementation::reference), scalars);
      for (const auto member : {&AdamPaxState::p, &AdamPaxState::m, &AdamPaxState::v, &AdamPaxState::copy, &AdamPaxState::gradient})
        EXPECT_TRUE(same_bits(found.*member, reference.*member)) << size;
    }
  }
}

TEST(AdamPax, DoesForManyWhatItDoesForEach) {
  const AdamPaxScalars scalars{.learning_rate = 3e-3, .weight_decay = 0.1, .gradient_scale = 0.37F, .update = 5};
  ThreadTeam team(3);
  std::vector<AdamPaxState> found, expected;
  std::vector<OptimizerTensors> tensors;
  found.reserve(70);
  for (int i = 0; i < 70; ++i) {
    const std::int64_t size = i % 40 == 0 ? 50'000 + i : 1 + i * 37 % 700;
    const AdamPaxState& state = found.emplace_back(size);
    tensors.push_back(state.tensors(i % 4 != 1));
    expected.emplace_back(size).update(ExecutionContext(team, Implementation::reference), scalars, i % 4 != 1);
  }
  adam_pax(fast(team), scalars, tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    for (const auto member : {&AdamPaxState::p, &AdamPaxState::m, &AdamPaxState::v, &AdamPaxState::copy, &AdamPaxState::gradient})
      EXPECT_TRUE(same_bits(found[i].*member, expected[i].*member)) << i;
}

TEST(AdamPax, RefusesAnUpdateBeforeTheFirst) {
  ThreadTeam team(1);
  const AdamPaxState state(8);
  EXPECT_EQ(testing::thrown([&] { state.update(fast(team), {.update = 0}); }), static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace millrace::kernels
