#include "runtime/passes/differentiate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/base/check.hpp"
#include "tests/runtime/program/rig.hpp"

namespace millrace::runtime::testing {
namespace {

using kernels::DType;
using kernels::Implementation;

void expect_same_bits(const std::map<std::pair<std::string, int>, std::vector<float>>& a,
                      const std::map<std::pair<std::string, int>, std::vector<float>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [key, values] : a) {
    ASSERT_TRUE(b.contains(key)) << key.first;
    const auto& others = b.at(key);
    ASSERT_EQ(values.size(), others.size());
    EXPECT_EQ(std::memcmp(values.data(), others.data(), values.size() * sizeof(float)), 0) << key.first << " use " << key.second;
  }
}

double largest(const std::vector<float>& values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

/// The sum over the uses of a tied parameter.
std::map<std::string, std::vector<float>> gradients(Rig& rig) {
  std::map<std::string, std::vector<float>> result;
  for (const auto& [key, values] : rig.accumulators()) {
    auto& sum = result[key.first];
    sum.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
  }
  return result;
}

/// Checks the gradients of all master parameters of a net with this number of tensors.
void expect_gradients_equal_slopes(const SmallNet& net, std::size_t tensors) {
  Rig rig(net, {});
  rig.run(ProgramKind::forward);
  rig.run_backward();
  const auto analytic = gradients(rig);
  EXPECT_EQ(analytic.size(), tensors);
  for (const auto& [name, gradient] : analytic) {
    const auto values = rig.master(name);
    const double tolerance = 1e-2 * largest(gradient) + 1e-4;
    ASSERT_GT(largest(gradient), 1e-4) << name;
    for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 6) {
      const float before = values[i];
      constexpr float step = 4e-3F;
      const auto loss_at = [&](float value) {
        values[i] = value;
        rig.refresh();
        rig.run(ProgramKind::forward);
        rig.run_backward();  // computes the loss with the gradient
        return rig.loss();
      };
      const double above = loss_at(before + step), below = loss_at(before - step);
      values[i] = before;
      EXPECT_NEAR(gradient[i], Rig::loss_scale * (above - below) / (2.0 * step), tolerance) << name << " element " << i;
    }
  }
}

TEST(Differentiate, GradientsEqualFiniteDifferences) {
  expect_gradients_equal_slopes(SmallNet{}, 20);  // table, final norm, nine in each layer
  SmallNet with_sinks;
  with_sinks.sinks = true;
  expect_gradients_equal_slopes(with_sinks, 22);
}

class Both : public ::testing::TestWithParam<std::pair<DType, Implementation>> {};

TEST_P(Both, BackwardHasTheBitsOfInputThenWeightGradients) {
  SmallNet net;
  net.compute = GetParam().first;
  Rig split(net, {BackwardMode::split, "none", GetParam().second});
  Rig fused(net, {BackwardMode::fused, "none", GetParam().second});
  for (int microbatch = 0; microbatch < 2; ++microbatch)
    for (auto* rig : {&split, &fused}) {
      rig->run(ProgramKind::forward);
      rig->run_backward();
    }
  EXPECT_EQ(split.loss(), fused.loss());
  EXPECT_TRUE(std::isfinite(split.loss()));
  EXPECT_GT(largest(split.accumulators().at({"table", 0})), 0);
  expect_same_bits(split.accumulators(), fused.accumulators());
}

TEST_P(Both, TwoStagesHaveTheBitsOfOne) {
  SmallNet whole;
  whole.compute = GetParam().first;
  auto head = whole, tail = whole;
  head.end_layer = 1;
  head.last = false;
  tail.first_layer = 1;
  tail.first = false;
  const Rig::Options options{BackwardMode::split, "none", GetParam().second};
  Rig one(whole, options), first(head, options), second(tail, {BackwardMode::fused, "full", GetParam().second});
  one.run(ProgramKind::forward);
  one.run_backward();
  first.run(ProgramKind::forward);
  second.bindings[Region::boundary_in] = first.bindings[Region::boundary_out];
  second.run(ProgramKind::forward);
  second.run_backward();
  first.bindings[Region::gradient_in] = second.bindings[Region::gradient_out];
  first.run_backward();
  EXPECT_EQ(one.loss(), second.loss());
  auto parts = first.accumulators();
  for (const auto& [key, values] : second.accumulators()) EXPECT_TRUE(parts.emplace(key, values).second) << key.first;
  expect_same_bits(one.accumulators(), parts);
}

INSTANTIATE_TEST_SUITE_P(Differentiate, Both,
                         ::testing::Values(std::pair{DType::f32, Implementation::reference}, std::pair{DType::f32, Implementation::fast},
                                           std::pair{DType::bf16, Implementation::reference},
                                           std::pair{DType::bf16, Implementation::fast}));

TEST(Differentiate, InputGradientLeavesAccumulatorsAloneAndWeightGradientWritesNothingElse) {
  SmallNet net;
  net.first = false;
  Rig rig(net, {});
  const auto floats = [&](Region region) { return reinterpret_cast<float*>(rig.bindings[region]); };
  for (std::int64_t i = 0; i < net.tokens() * net.width; ++i)
    floats(Region::boundary_in)[i] = static_cast<float>(i * 37 % 19) / 8.0F - 1.0F;
  rig.run(ProgramKind::forward);
  rig.fill(Region::accumulator, std::byte{0x3f});
  const auto before = rig.accumulators();
  rig.run(ProgramKind::input_gradient);
  expect_same_bits(before, rig.accumulators());

  std::map<int, std::vector<std::byte>> kept;
  for (std::size_t i = 0; i < region_count; ++i) {
    const auto bytes = rig.region(static_cast<Region>(i));
    kept[static_cast<int>(i)].assign(bytes.begin(), bytes.end());
  }
  rig.run(ProgramKind::weight_gradient);
  for (std::size_t i = 0; i < region_count; ++i) {
    const auto region = static_cast<Region>(i);
    const auto bytes = rig.region(region);
    const auto& old = kept.at(static_cast<int>(i));
    const bool same = std::equal(bytes.begin(), bytes.end(), old.begin(), old.end());
    if (region == Region::accumulator) {
      EXPECT_FALSE(same);
    } else if (region != Region::workspace) {  // scratch
      EXPECT_TRUE(same) << to_string(region);
    }
  }
  for (const auto& [key, values] : rig.accumulators()) EXPECT_TRUE(values != before.at(key)) << key.first;
}

TEST(Differentiate, NoOperationOfISharesAResultWithW) {
  const auto set = differentiate(build(SmallNet{}), {});
  for (const auto& operation : set.program(ProgramKind::input_gradient))
    for (const auto output : operation.outputs) EXPECT_EQ(set.value(output).role, Role::intermediate) << operation.name;
  for (const auto& operation : set.program(ProgramKind::weight_gradient))
    for (const auto output : operation.outputs) EXPECT_EQ(set.value(output).role, Role::accumulator) << operation.name;
}

TEST(Differentiate, TheLossIsYieldedInIAndInTheEvaluation) {
  const auto set = differentiate(build(SmallNet{}), {});
  const auto writers = [&](ProgramKind kind, ValueId id) {
    return std::count_if(set.program(kind).begin(), set.program(kind).end(), [id](const Operation& operation) {
      return std::find(operation.outputs.begin(), operation.outputs.end(), id) != operation.outputs.end();
    });
  };
  EXPECT_EQ(writers(ProgramKind::forward, set.losses.at(0).value), 0);
  EXPECT_EQ(writers(ProgramKind::input_gradient, set.losses.at(0).value), 1);
  EXPECT_EQ(writers(ProgramKind::weight_gradient, set.losses.at(0).value), 0);
  EXPECT_EQ(writers(ProgramKind::backward, set.losses.at(0).value), 1);
  EXPECT_EQ(writers(ProgramKind::evaluate, set.losses.at(0).value), 1);
  EXPECT_EQ(set.program(ProgramKind::forward).size() + 1, set.program(ProgramKind::evaluate).size());
  EXPECT_EQ(set.program(ProgramKind::evaluate).back().rule->name(), "linear_cross_entropy");

  Rig trained(SmallNet{}, {}), evaluated(SmallNet{}, {BackwardMode::forward_only});
  trained.run(ProgramKind::forward);
  trained.run_backward();
  evaluated.run(ProgramKind::evaluate);
  EXPECT_EQ(trained.loss(), evaluated.loss());

  SmallNet logits;
  logits.logits = true;
  const auto shown = differentiate(build(logits), {});
  EXPECT_EQ(shown.program(ProgramKind::forward).size(), shown.program(ProgramKind::evaluate).size());
}

TEST(Differentiate, NothingElseInFMayReadWhatIYields) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = linear(builder, builder.boundary_in(8), builder.parameter("w", {8, 8}), "x");
  const auto loss = linear_cross_entropy(builder, x, builder.parameter("head", {11, 8}), builder.batch("targets"), {}, "loss");
  builder.loss_term({.name = "lm_loss"}, loss);
  auto program = builder.finish();
  Operation reader;
  reader.rule = program.operations.back().rule;
  reader.name = "reader";
  reader.inputs = {program.operations.back().outputs[1]};
  program.values.push_back(program.value(loss));
  reader.outputs = {{static_cast<std::int32_t>(program.values.size()) - 1}};
  program.operations.push_back(reader);
  try {
    (void)differentiate(std::move(program), {});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("reader reads 'loss.log_sum_exp', which I yields"), std::string::npos) << error.what();
  }
}

TEST(Differentiate, AnEmptyStageCopiesBothWays) {
  ProgramBuilder builder({DType::f32, 2, 4});
  builder.set_boundary_out(builder.boundary_in(8));
  const auto set = differentiate(builder.finish(), {});
  ASSERT_EQ(set.program(ProgramKind::forward).size(), 1U);
  EXPECT_EQ(set.program(ProgramKind::forward)[0].outputs[0], set.outputs.at(0).value);
  EXPECT_EQ(set.program(ProgramKind::forward)[0].inputs[0], set.inputs.at(0).value);
  ASSERT_EQ(set.program(ProgramKind::input_gradient).size(), 1U);
  EXPECT_EQ(set.program(ProgramKind::input_gradient)[0].outputs[0], set.inputs.at(0).gradient);
  EXPECT_EQ(set.program(ProgramKind::input_gradient)[0].inputs[0], set.outputs.at(0).gradient);
  EXPECT_TRUE(set.program(ProgramKind::weight_gradient).empty());
}

TEST(Differentiate, WhatLeavesAndIsReadLaterLeavesAsACopy) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto gate = linear(builder, builder.boundary_in(8), builder.parameter("w", {8, 8}), "gate");
  const auto y = swiglu(builder, gate, gate, "swiglu");
  builder.set_boundary_out(gate);
  (void)y;
  const auto plain = differentiate(builder.finish(), {});
  EXPECT_EQ(plain.program(ProgramKind::forward).size(), 2U);  // no gradient flows into the swiglu, so its residual is not kept

  ProgramBuilder kept({DType::f32, 2, 4});
  const auto x = kept.boundary_in(8);
  const auto h = rms_norm(kept, linear(kept, x, kept.parameter("w", {8, 8}), "h"), kept.parameter("n", {8}, in_f32), {1e-5F}, "norm");
  const auto out = add(kept, h, linear(kept, h, kept.parameter("v", {8, 8}), "v"), "sum");
  (void)out;
  kept.set_boundary_out(h);
  EXPECT_EQ(kind_of(differentiate(kept.finish(), {}).program(ProgramKind::forward).back()), "linear + addend");

  ProgramBuilder read({DType::f32, 2, 4});
  const auto t = read.boundary_in(8);
  const auto a = attention(read, t, t, t, read.batch("segments"), {.head_dim = 4}, "attention");  // its gradient reads o
  read.set_boundary_out(a);
  const auto set = differentiate(read.finish(), {});
  EXPECT_EQ(set.program(ProgramKind::forward).back().rule->name(), "copy");
  EXPECT_EQ(set.program(ProgramKind::forward).back().inputs[0], a);
  EXPECT_EQ(set.program(ProgramKind::forward).back().outputs[0], set.outputs.at(0).value);
}

// The input gradient of the matrix product is also the stage's, and the bias's gradient reads it in W.
TEST(Differentiate, AGradientThatWReadsLeavesAsACopy) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto y = add_bias(builder, builder.boundary_in(8), builder.parameter("bias", {8}, in_f32), "bias");
  builder.set_boundary_out(linear(builder, y, builder.parameter("w", {8, 8}), "w"));
  const auto set = differentiate(builder.finish(), {});
  const auto& last = set.program(ProgramKind::input_gradient).back();
  EXPECT_EQ(last.rule->name(), "copy");
  EXPECT_EQ(set.value(last.inputs[0]).name, "w.dx");
  EXPECT_EQ(last.outputs[0], set.inputs.at(0).gradient);
}

TEST(Differentiate, GradientsOfAValueAreAddedLastReaderFirst) {
  ProgramBuilder builder({DType::f32, 1, 4});
  const auto x = builder.boundary_in(8);
  const auto a = linear(builder, x, builder.parameter("a", {8, 8}), "a");
  const auto b = linear(builder, x, builder.parameter("b", {8, 8}), "b");
  builder.set_boundary_out(add(builder, a, b, "sum"));
  const auto set = differentiate(builder.finish(), {});
  std::vector<std::string> names;
  for (const auto& operation : set.program(ProgramKind::input_gradient)) names.push_back(operation.name);
  EXPECT_EQ(names, (std::vector<std::string>{"b.dx", "a.dx"}));
  const auto& sum = set.program(ProgramKind::input_gradient).back();
  EXPECT_EQ(kind_of(sum), "linear_input_gradient + addend");
  EXPECT_EQ(set.value(sum.inputs[2]).name, "b.dx");
  EXPECT_EQ(set.value(sum.outputs[0]).name, "a.dx_sum");
  EXPECT_EQ(sum.outputs[0], set.inputs.at(0).gradient);
}

TEST(Differentiate, LogitsHaveNoBackward) {
  SmallNet net;
  net.logits = true;
  const auto set = differentiate(build(net), {});
  EXPECT_FALSE(set.program(ProgramKind::forward).empty());
  for (const auto kind : {ProgramKind::input_gradient, ProgramKind::weight_gradient, ProgramKind::backward})
    EXPECT_TRUE(set.program(kind).empty());
}

}  // namespace
}  // namespace millrace::runtime::testing
