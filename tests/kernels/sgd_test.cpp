#include "kernels/sgd.hpp"

#include <vector>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels {
namespace {

using testing::Data;
using testing::fast;
using testing::lies_within;
using testing::stream_of;

struct SgdState {
  Data p, gradient, copy, momentum;
  explicit SgdState(std::int64_t size)
      : p(DType::f32, {size}, 1), gradient(DType::f32, {size}, 4), copy(DType::bf16, {size}), momentum(DType::f32, {size}, 2, 0.1F) {}
  void update(const ExecutionContext& context, const SgdScalars& scalars, bool decays = true) const {
    const OptimizerTensors tensors{*p, *gradient, *copy, {scalars.momentum > 0 ? *momentum : Tensor{}}, decays};
    sgd(context, scalars, {&tensors, 1});
  }
};

const SgdScalars plain{.learning_rate = 0.03, .weight_decay = 0.4, .gradient_scale = 0.37F};
const SgdScalars with_momentum{.learning_rate = 0.03, .momentum = 0.7, .weight_decay = 0.4, .gradient_scale = 0.37F};
const SgdScalars nesterov{.learning_rate = 0.03, .momentum = 0.7, .nesterov = true, .weight_decay = 0.4, .gradient_scale = 0.37F};

TEST(Sgd, FollowsTheWorkedExample) {
  // p = 1, lr 0.1, μ 0.9, decay 0.5, gradients 0.5 and −0.25. With Nesterov: g = 1, b = 1, p = 1 − 0.1·1.9; g = 0.155, b = 1.055,
  // p = 0.81 − 0.1·1.1045. Without: p = 1 − 0.1·1; g = 0.2, b = 1.1, p = 0.9 − 0.1·1.1. Without momentum: p = 0.9, then 0.9 − 0.1·0.2.
  const struct {
    double momentum;
    bool nesterov;
    double expected[2];
  } cases[] = {{0.9, true, {0.81, 0.69955}}, {0.9, false, {0.9, 0.79}}, {0, false, {0.9, 0.88}}};
  ThreadTeam team(1);
  for (const auto implementation : {Implementation::fast, Implementation::reference}) {
    for (const auto& one : cases) {
      Data p(DType::f32, {1}), gradient(DType::f32, {1}), copy(DType::bf16, {1}), momentum(DType::f32, {1});
      p.set(0, 1.0);
      for (int t = 0; t < 2; ++t) {
        gradient.set(0, t == 0 ? 0.5 : -0.25);
        const OptimizerTensors tensors{*p, *gradient, *copy, {one.momentum > 0 ? *momentum : Tensor{}}};
        sgd(stream_of(team, implementation),
            {.learning_rate = 0.1, .momentum = one.momentum, .nesterov = one.nesterov, .weight_decay = 0.5}, {&tensors, 1});
        EXPECT_NEAR(p.get(0), one.expected[t], tests::roundings(8 * t + 8)) << one.momentum << one.nesterov;
        EXPECT_EQ(gradient.get(0), 0.0);
        EXPECT_EQ((*copy).as<BFloat16>()[0].bits, to_bfloat16((*p).as<float>()[0]).bits);
      }
    }
  }
}

// Every scalar must be used in its place: the values differ so much that swapping two changes the result.
TEST(Sgd, IsItsFormula) {
  ThreadTeam team(2);
  for (const auto implementation : {Implementation::fast, Implementation::reference}) {
    for (const SgdScalars& scalars : {plain, with_momentum, nesterov}) {
      for (const bool decays : {true, false}) {
        const SgdState before(37);
        SgdState after(37);
        after.update(stream_of(team, implementation), scalars, decays);
        const double decay = decays ? 0.4 : 0.0, mu = scalars.momentum;
        const auto g = [&](std::int64_t i) { return before.gradient.at(i) * static_cast<double>(0.37F) + decay * before.p.at(i); };
        const auto b = [&](std::int64_t i) { return mu * before.momentum.at(i) + g(i); };
        const auto d = [&](std::int64_t i) { return mu == 0 ? g(i) : scalars.nesterov ? g(i) + mu * b(i) : b(i); };
        const auto size = [&](std::int64_t i) {  // of the terms of d
          return std::abs(before.gradient.at(i)) + std::abs(before.p.at(i)) + std::abs(before.momentum.at(i));
        };
        EXPECT_TRUE(lies_within(after.p, [&](std::int64_t i) {
          return tests::around(before.p.at(i) - 0.03 * d(i),
                               tests::roundings(1) * std::abs(before.p.at(i)) + 0.03 * tests::roundings(9) * size(i));
        }));
        if (mu == 0) {
          EXPECT_TRUE(same_bits(after.momentum, before.momentum)) << "a state that is not there was written";
        } else {
          EXPECT_TRUE(lies_within(after.momentum, [&](std::int64_t i) { return tests::around(b(i), tests::roundings(6) * size(i)); }));
        }
      }
    }
  }
}

TEST(Sgd, HasTheBitsOfTheReferenceOnAnyThreads) {
  for (const int threads : {1, 2, 3}) {
    ThreadTeam team(threads);
    for (const SgdScalars& scalars : {plain, with_momentum, nesterov}) {
      for (const std::int64_t size : {1, 15, 16, 4097, 597 * 43}) {
        SgdState found(size), reference(size);
        found.update(fast(team), scalars);
        reference.update(ExecutionContext(team, Implementation::reference), scalars);
        for (const auto member : {&SgdState::p, &SgdState::momentum, &SgdState::copy, &SgdState::gradient})
          EXPECT_TRUE(same_bits(found.*member, reference.*member)) << size;
      }
    }
  }
}

TEST(Sgd, DoesForManyWhatItDoesForEach) {
  ThreadTeam team(3);
  for (const SgdScalars& scalars : {plain, nesterov}) {
    std::vector<SgdState> found, expected;
    std::vector<OptimizerTensors> tensors;
    found.reserve(70);
    for (int i = 0; i < 70; ++i) {
      const std::int64_t size = i % 40 == 0 ? 50'000 + i : 1 + i * 37 % 700;
      const SgdState& state = found.emplace_back(size);
      tensors.push_back({*state.p, *state.gradient, *state.copy, {scalars.momentum > 0 ? *state.momentum : Tensor{}}, i % 4 != 1});
      expected.emplace_back(size).update(ExecutionContext(team, Implementation::reference), scalars, i % 4 != 1);
    }
    sgd(fast(team), scalars, tensors);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      for (const auto member : {&SgdState::p, &SgdState::momentum, &SgdState::copy, &SgdState::gradient})
        EXPECT_TRUE(same_bits(found[i].*member, expected[i].*member)) << i;
  }
}

}  // namespace
}  // namespace millrace::kernels
