#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>

#include "tests/runtime/program/expert_nets.hpp"
#include "tests/runtime/program/fixed_offsets.hpp"
#include "tests/runtime/program/rig.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime::testing {
namespace {

using kernels::DType;
using kernels::Implementation;

constexpr std::int64_t experts = 5;
constexpr std::array<float, 2> scales = {0.5F, 0.0625F};  // of the balance loss, of the z-loss

/// Two terms of the loss from a router's logits, in a layer; nothing else.
ForwardProgram program_of(DType compute) {
  ProgramBuilder builder({compute, 2, 4});
  auto x = embedding(builder, builder.batch("tokens"), builder.parameter("table", {11, 8}), "embedding");
  builder.enter(0, "layers.0");
  x = activate(builder, kernels::Activation::silu, x, "silu");
  const auto u = linear(builder, x, builder.parameter("router", {experts, 8}), "router");
  builder.loss_term({.name = "balance", .auxiliary = true},
                    balance_loss(builder, u, experts_of_tokens(builder, 2, experts, "experts"), {.sequences = 2}, "balance_loss"));
  builder.loss_term({.name = "z", .auxiliary = true}, router_z_loss(builder, u, "z_loss"));
  return builder.finish();
}

class Losses {
 public:
  Losses(DType compute, Rig::Options options) : rig(program_of(compute), SmallNet{}, std::move(options)) {
    for (std::size_t i = 0; i < scales.size(); ++i) *number<float>(rig.set.losses.at(i).scale) = scales.at(i);
  }
  /// The value of each term after forward and backward.
  std::array<double, 2> run() {
    rig.run(ProgramKind::forward);
    rig.run_backward();
    return {*number<double>(rig.set.losses.at(0).value), *number<double>(rig.set.losses.at(1).value)};
  }
  Rig rig;

 private:
  template <class Number>
  Number* number(ValueId id) {
    const auto& placement = rig.plan.placements.at(static_cast<std::size_t>(id.index));
    return reinterpret_cast<Number*>(rig.bindings[placement.region] + placement.offset);
  }
};

TEST(RouterLosses, GradientsAreTheSlopesOfTheirSum) {
  Losses losses(DType::f32, {});
  losses.run();
  const auto gradients = losses.rig.accumulators();
  EXPECT_EQ(gradients.size(), 2U);
  for (const auto& [key, gradient] : gradients) {
    const auto values = losses.rig.master(key.first);
    double largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float before = values[i];
      constexpr float step = 0x1p-8F;
      const auto sum_at = [&](float value) {
        values[i] = value;
        losses.rig.refresh();
        const auto [balance, z] = losses.run();
        return static_cast<double>(scales[0]) * balance + static_cast<double>(scales[1]) * z;
      };
      const float high = before + step, low = before - step;
      const double above = sum_at(high), below = sum_at(low);
      values[i] = before;
      const double slope = (above - below) / (static_cast<double>(high) - static_cast<double>(low));
      // The sum is about 3, from logits that fp32 products of eight terms make: 3 · 8 · 2⁻²⁴ over the step is 4e-4 at the most, and with
      // errors of either sign a tenth of it. The cubic part of the sum, with derivatives up to a few, times step²/6 is 1e-5.
      EXPECT_NEAR(gradient[i], slope, 1e-4 + 1e-3 * std::abs(slope)) << key.first << " element " << i;
      largest = std::max(largest, std::abs(slope));
    }
    EXPECT_GT(largest, 1e-2) << key.first;
  }
}

// Without its own scale a term would have that of the other.
TEST(RouterLosses, EachTermHasAValueAndAScaleOfItsOwn) {
  const auto set = differentiate(program_of(DType::f32), {});
  ASSERT_EQ(set.losses.size(), 2U);
  EXPECT_TRUE(set.losses[0].scale.valid() && set.losses[1].scale.valid());
  EXPECT_FALSE(set.losses[0].scale == set.losses[1].scale);
  Losses losses(DType::f32, {});
  const auto [balance, z] = losses.run();
  EXPECT_GT(balance, 2.0);  // two sequences, each of some K = 2
  EXPECT_LT(balance, 8.0);
  EXPECT_GT(z, 8.0);  // eight tokens, each of some log² 5
  EXPECT_LT(z, 40.0);
}

TEST(RouterLosses, BothBackwardsAndEveryPolicyHaveOneResult) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Implementation implementation : {Implementation::reference, Implementation::fast}) {
      Losses plain(dtype, {BackwardMode::split, "none", implementation});
      const auto expected = plain.run();
      EXPECT_TRUE(std::isfinite(expected[0]) && std::isfinite(expected[1]));
      for (const auto mode : {BackwardMode::split, BackwardMode::fused})
        for (const char* policy : {"none", "full"}) {
          Losses other(dtype, {mode, policy, implementation});
          // A read of memory that was never written finds this.
          for (const auto region : {Region::workspace, Region::handoff, Region::stash_input, Region::stash_weight})
            other.rig.fill(region, std::byte{0x7f});
          EXPECT_EQ(other.run(), expected) << policy;
          EXPECT_EQ(plain.rig.accumulators(), other.rig.accumulators()) << policy;
        }
    }
}

TEST(RouterLosses, AnEvaluationHasTheValuesOfTheTraining) {
  Losses trained(DType::f32, {});
  const auto expected = trained.run();
  Rig evaluated(program_of(DType::f32), SmallNet{}, {BackwardMode::forward_only});
  evaluated.run(ProgramKind::evaluate);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& placement = evaluated.plan.placements.at(static_cast<std::size_t>(evaluated.set.losses[i].value.index));
    EXPECT_EQ(*reinterpret_cast<const double*>(evaluated.bindings[placement.region] + placement.offset), expected[i]);
  }
}

TEST(RouterLosses, WrongShapesNameTheOperationAndItsOperands) {
  const auto expect_refused = [](auto&& call, const std::vector<std::string>& words) {
    tests::expect_error(call, ExitCode::internal, words);
  };
  for (const bool bounded : {false, true}) {
    ProgramBuilder builder({DType::f32, 2, 4});
    auto u = builder.boundary_in(experts), chosen = experts_of_tokens(builder, 2, experts, "experts");
    if (bounded) {
      u = received_rows(builder, u, "u");
      chosen = received_rows(builder, chosen, "chosen");
      expect_refused([&] { (void)balance_loss(builder, u, chosen, {2}, "a"); }, {"balance_loss(f32 [<=8, 5]", "a runtime count"});
      EXPECT_TRUE(router_z_loss(builder, u, "z").valid());
      continue;
    }
    expect_refused([&] { (void)balance_loss(builder, u, chosen, {3}, "a"); },
                   {"'a'", "balance_loss(f32 [8, 5], i32 [8, 2]), expected logits [T, E] and experts i32 [T, K] of 3 sequences"});
    expect_refused([&] { (void)balance_loss(builder, u, chosen, {0}, "b"); }, {"of 0 sequences"});
    expect_refused([&] { (void)balance_loss(builder, u, u, {2}, "c"); }, {"balance_loss(f32 [8, 5], f32 [8, 5])"});
    expect_refused([&] { (void)balance_loss(builder, chosen, chosen, {2}, "d"); }, {"balance_loss(i32 [8, 2]"});
    expect_refused([&] { (void)balance_loss(builder, u, builder.batch("tokens"), {2}, "e"); }, {"i32 [8])"});
    expect_refused([&] { (void)router_z_loss(builder, chosen, "f"); }, {"'f'", "router_z_loss(i32 [8, 2])"});
  }
}

// FLOPs per logit, and every operand's bytes once.
TEST(RouterLosses, CostsAreCounted) {
  const auto set = differentiate(program_of(DType::f32), {});
  const auto expect_cost = [&](ProgramKind kind, const std::string& name, double flops, double bytes) {
    for (const Operation& operation : set.program(kind)) {
      if (operation.name != "layers.0." + name) continue;
      EXPECT_EQ(cost(set, operation).flops, flops * 8 * experts) << name;
      EXPECT_EQ(cost(set, operation).bytes, bytes) << name;
      return;
    }
    ADD_FAILURE() << "no operation " << name;
  };
  constexpr double logits = 4.0 * 8 * experts, choices = 4.0 * 2 * experts;
  expect_cost(ProgramKind::forward, "balance_loss", 7, logits + 4.0 * 8 * 2 + 8 + choices);
  expect_cost(ProgramKind::input_gradient, "balance_loss.dx", 12, logits + choices + 4 + logits);
  expect_cost(ProgramKind::forward, "z_loss", 3, logits + 8);
  expect_cost(ProgramKind::input_gradient, "z_loss.dx", 6, logits + 4 + logits);
}

}  // namespace
}  // namespace millrace::runtime::testing
