#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/program/delta_net.hpp"
#include "tests/runtime/program/rig.hpp"

/// The rules of the operations of gated delta nets, beside what tests/runtime/program/rules_test.cpp expects of every rule.
namespace millrace::runtime::testing {
namespace {

using kernels::DType;

/// The loss, and a gradient that every decay leads to.
std::pair<double, float> results_of(const DeltaNet& net) {
  ProgramBuilder builder({DType::bf16, 2, 4});
  const auto x = embedding(builder, builder.batch("tokens"), builder.parameter("table", {11, 8}), "embedding");
  builder.loss_term({.name = "lm_loss"}, linear_cross_entropy(builder, net(builder, x), builder.parameter("head", {11, 8}),
                                                              builder.batch("targets"), {}, "loss"));
  Rig rig(builder.finish(), SmallNet{}, {});
  rig.run(ProgramKind::forward);
  rig.run_backward();
  return {rig.loss(), rig.accumulators().at({"A_log", 0})[0]};
}

// An option that a rule does not pass to its kernels leaves the gradients consistent but changes the results.
TEST(DeltaNet, EveryOptionCounts) {
  const std::vector<std::pair<std::string, DeltaNet>> variants = {
      {"plain", {}},
      {"no silu", {.convolution = {}}},
      {"convolution across documents", {.convolution = {.silu = true, .reset_at_segments = false}}},
      {"epsilon", {.norm = {.width = 4, .epsilon = 0.5F}}},
      {"rounded decay", {.gates = {.round_decay = true}}},
      {"scale", {.rule = {.head_k_dim = 4, .head_v_dim = 4, .scale = 0.5F}}},
      {"state across documents", {.rule = {.head_k_dim = 4, .head_v_dim = 4, .scale = 0.8F, .reset_at_segments = false}}}};
  std::map<std::pair<double, float>, std::string> all;
  for (const auto& [name, net] : variants) {
    const auto [found, is_new] = all.emplace(results_of(net), name);
    EXPECT_TRUE(is_new) << name << " has the results of " << found->second;
  }
}

// Costs and scratch that depend on options.
TEST(DeltaNet, CountsWhatItsKernelsDo) {
  for (const bool silu : {false, true}) {
    ProgramBuilder builder({DType::bf16, 2, 70, true});
    const auto x = builder.boundary_in(6), v = linear(builder, x, builder.parameter("v", {14, 6}), "v");
    const auto c = short_convolution(builder, x, builder.parameter("conv", {6, 1, 5}), builder.batch("segments"), {.silu = silu}, "conv");
    const auto numbers = [&](const char* name) { return linear(builder, x, builder.parameter(name, {2, 6}), name); };
    const auto [g, beta] = delta_gates(builder, numbers("a"), numbers("b"), builder.parameter("A_log", {2}, in_f32),
                                       builder.parameter("dt_bias", {2}, in_f32), {}, "gates");
    builder.set_boundary_out(
        gated_delta_rule(builder, c, x, v, g, beta, builder.batch("segments"), {.head_k_dim = 6, .head_v_dim = 7}, "delta"));
    const ProgramSet set = differentiate(builder.finish(), {});
    std::map<std::string, double> flops;
    std::map<std::string, std::size_t> scratch;
    for (const auto kind : {ProgramKind::forward, ProgramKind::input_gradient, ProgramKind::weight_gradient})
      for (const Operation& operation : set.program(kind)) {
        std::vector<ValueType> inputs;
        for (const auto id : operation.inputs) inputs.push_back(set.value(id).type);
        const auto outputs = operation.rule->infer(inputs, operation.attributes);
        flops[operation.name] = operation.rule->cost(inputs, outputs, operation.attributes).flops;
        scratch[operation.name] = operation.rule->scratch_bytes(inputs, outputs, operation.attributes, 3);
        if (operation.name == "delta") {
          const auto options = operation.attributes.as<kernels::GatedDeltaRuleOptions>();
          EXPECT_EQ(options.sequence, 70);
          EXPECT_TRUE(options.one_segment);
        }
        if (operation.name == "conv") {
          const auto options = operation.attributes.as<kernels::ShortConvolutionOptions>();
          EXPECT_EQ(options.sequence, 70);
          EXPECT_TRUE(options.one_segment);
        }
      }
    // 140 tokens of 6 channels and 5 taps.
    EXPECT_EQ(flops.at("conv"), 140 * 6 * (10 + (silu ? 4 : 0)));
    EXPECT_EQ(flops.at("conv.dx"), 140 * 6 * (10 + (silu ? 19 : 0)));
    EXPECT_EQ(flops.at("conv.dw"), 140 * 6 * (10 + (silu ? 19 : 0)));
    const kernels::GatedDeltaRuleOptions options{.sequence = 70, .head_k_dim = 6, .head_v_dim = 7, .one_segment = true};
    const kernels::Shape keys{140, 1, 6}, values{140, 2, 7};
    EXPECT_EQ(flops.at("delta"), kernels::gated_delta_rule_flops(140, 1, 2, options).forward);
    EXPECT_EQ(flops.at("delta.dq"), kernels::gated_delta_rule_flops(140, 1, 2, options).gradient);
    EXPECT_EQ(scratch.at("delta"), kernels::gated_delta_rule_forward_scratch_bytes(keys, values, options, 3));
    EXPECT_EQ(scratch.at("delta.dq"), kernels::gated_delta_rule_gradient_scratch_bytes(keys, values, options, 3));
  }
}

}  // namespace
}  // namespace millrace::runtime::testing
