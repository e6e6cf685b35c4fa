#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/program/rig.hpp"

/// Every operation's gradient rules, each in a net of its own: the gradients of all parameters, those before the operation and its own,
/// are the loss's slopes.
namespace millrace::runtime::testing {
namespace {

using kernels::Activation;
using kernels::DType;

using Body = std::function<ValueId(ProgramBuilder&, ValueId)>;

struct Net {
  std::string name;
  Body body;      // from [T, 8] to [T, 8]
  HeadForm head;  // of the loss
};

/// An embedding, a product whose input gradient others reach, the body and a residual as a layer, the head.
ForwardProgram program_of(const Net& net, DType compute = DType::f32) {
  ProgramBuilder builder({compute, 2, 4});
  const auto x = embedding(builder, builder.batch("tokens"), builder.parameter("table", {11, 8}), "embedding");
  const auto h = linear(builder, x, builder.parameter("before", {8, 8}), "before");
  builder.enter(0, "layers.0");
  const auto y = add(builder, h, net.body(builder, h), "residual");
  builder.enter(-1, "");
  builder.set_loss(linear_cross_entropy(builder, y, builder.parameter("head", {11, 8}), builder.batch("targets"), net.head, "loss"));
  return builder.finish();
}

ValueId rotated(ProgramBuilder& builder, ValueId x, const RopeForm& form, const char* name) {
  return rope(builder, x, builder.batch("positions"), builder.constant("frequencies", {0.7F, 0.2F}), form, name);
}

Body attention_of(AttentionForm form, bool sinks = false) {
  form.head_dim = 4;
  return [form, sinks](ProgramBuilder& builder, ValueId x) {
    const auto k = linear(builder, x, builder.parameter("k", {4, 8}), "k"), v = linear(builder, x, builder.parameter("v", {4, 8}), "v");
    return attention(builder, rotated(builder, x, {1.3F, true}, "q_rope"), rotated(builder, k, {}, "k_rope"), v, builder.batch("segments"),
                     form, "attention", sinks ? builder.parameter("sinks", {2}) : ValueId{});
  };
}

std::vector<Net> nets() {
  std::vector<Net> list{
      {"bias", [](ProgramBuilder& b, ValueId x) { return add_bias(b, x, b.parameter("bias", {8}), "bias"); }, {}},
      {"linear_input_major",
       [](ProgramBuilder& b, ValueId x) {
         const auto wide = linear_input_major(b, x, b.parameter("wide", {8, 5}), "wide");
         return linear_input_major(b, wide, b.parameter("back", {5, 8}), "back");
       },
       {}},
      {"layer_norm",
       [](ProgramBuilder& b, ValueId x) {
         return layer_norm(b, x, b.parameter("weight", {8}), b.parameter("bias", {8}), {1e-2F, 0.5F}, "norm");
       },
       {}},
      {"rms_norm",
       [](ProgramBuilder& b, ValueId x) {
         return rms_norm(b, x, b.parameter("weight", {4}), {1e-2F, 0.5F}, "norm");
       },
       {}},
      {"sinusoid",
       [](ProgramBuilder& b, ValueId x) {
         return add_sinusoid(b, x, b.batch("positions"), b.constant("timescales", {1, 0.5F, 0.2F, 0.1F}), "sinusoid");
       },
       {}},
      {"scale", [](ProgramBuilder& b, ValueId x) { return scale(b, x, 1.7, "scale"); }, {}},
      {"dropout", [](ProgramBuilder& b, ValueId x) { return dropout(b, x, 0.25, "dropout"); }, {}},
      {"copy", [](ProgramBuilder& b, ValueId x) { return copy(b, x, "copy"); }, {}},
      {"add", [](ProgramBuilder& b, ValueId x) { return add(b, x, scale(b, x, 0.3, "scale"), "add"); }, {}},
      {"twice", [](ProgramBuilder& b, ValueId x) { return add(b, x, x, "twice"); }, {}},
      {"split",
       [](ProgramBuilder& b, ValueId x) {
         const auto parts = split(b, x, {3, 4, 1}, "split");
         const auto first = linear(b, parts[0], b.parameter("first", {8, 3}), "first");
         const auto second = linear(b, parts[1], b.parameter("second", {8, 4}), "second");
         return add(b, add(b, first, second, "two"), linear(b, parts[2], b.parameter("third", {8, 1}), "third"), "three");
       },
       {}},
      {"capped window", attention_of({.scale = 1.5F, .soft_cap = 1.0F, .window = 2}), {}},
      {"chunks", attention_of({.scale = 0.7F, .chunk = 3}), {}},
      {"both ways", attention_of({.scale = 0.7F, .causal = false}), {}},
      {"sinks", attention_of({.scale = 0.7F}, true), {}},
      {"shaped head", [](ProgramBuilder& b, ValueId x) { return scale(b, x, 0.5, "scale"); }, {0.05F, 0.6F, 2.0F}},
  };
  for (const auto activation : {Activation::silu, Activation::gelu, Activation::relu}) {
    const std::string name(kernels::to_string(activation));
    list.push_back({name, [activation](ProgramBuilder& b, ValueId x) { return activate(b, activation, x, "activate"); }, {}});
    list.push_back({"gated " + name,
                    [activation](ProgramBuilder& b, ValueId x) {
                      return glu(b, activation, linear(b, x, b.parameter("gate", {8, 8}), "gate"), x, "glu");
                    },
                    {}});
  }
  return list;
}

void run(Rig& rig) {
  rig.run(ProgramKind::forward);
  rig.run_backward();
}

TEST(Rules, GradientsAreTheSlopesOfTheLoss) {
  for (const Net& net : nets()) {
    SCOPED_TRACE(net.name);
    Rig rig(program_of(net), SmallNet{}, {});
    run(rig);
    for (const auto& [key, gradient] : rig.accumulators()) {
      const auto values = rig.master(key.first);
      for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 9) {
        const float before = values[i];
        constexpr float step = 0x1p-8F;
        const auto loss_at = [&](float value) {
          values[i] = value;
          rig.refresh();
          run(rig);  // the loss comes with the gradient
          return rig.loss();
        };
        // In exactly what the steps came to in fp32.
        const float high = before + step, low = before - step;
        const double above = loss_at(high), below = loss_at(low);
        values[i] = before;
        const double slope = Rig::loss_scale * (above - below) / (static_cast<double>(high) - static_cast<double>(low));
        // The logits of six tokens in fp32, off by some roundoffs each, over twice the step: 6·3·2⁻²⁴·2⁷/8 is 2e-5. The cubic part of the
        // loss, of slopes up to a few, times step²/6: as much again.
        EXPECT_NEAR(gradient[i], slope, 1e-4 + 1e-3 * std::abs(slope)) << key.first << " element " << i;
      }
    }
    EXPECT_GE(rig.accumulators().size(), 3U);
  }
}

TEST(Rules, BothBackwardsAndEveryPolicyHaveOneResult) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Net& net : nets()) {
      SCOPED_TRACE(net.name);
      Rig split(program_of(net, dtype), SmallNet{}, {BackwardMode::split, "none", kernels::Implementation::fast});
      run(split);
      EXPECT_TRUE(std::isfinite(split.loss()));
      for (const auto mode : {BackwardMode::split, BackwardMode::fused})
        for (const char* policy : {"none", "full"}) {
          Rig other(program_of(net, dtype), SmallNet{}, {mode, policy, kernels::Implementation::fast});
          // Whoever reads what nobody wrote finds this.
          for (const auto region : {Region::workspace, Region::handoff, Region::stash_input, Region::stash_weight})
            other.fill(region, std::byte{0x7f});
          run(other);
          EXPECT_EQ(split.loss(), other.loss()) << policy;
          EXPECT_EQ(split.accumulators(), other.accumulators()) << policy;
        }
    }
}

double loss_of(const Net& net, DType dtype) {
  Rig rig(program_of(net, dtype), SmallNet{}, {});
  run(rig);
  return rig.loss();
}

// An option that a rule does not hand to its kernels leaves the gradients right and the loss another.
TEST(Rules, EveryOptionCounts) {
  const auto expect_all_differ = [](const std::vector<Net>& variants, DType dtype) {
    std::map<double, std::string> losses;
    for (const Net& net : variants) {
      const auto [found, is_new] = losses.emplace(loss_of(net, dtype), net.name);
      EXPECT_TRUE(is_new) << net.name << " has the loss of " << found->second;
    }
  };
  expect_all_differ({{"plain", attention_of({}), {}},
                     {"scale", attention_of({.scale = 0.7F}), {}},
                     {"soft cap", attention_of({.soft_cap = 1.0F}), {}},
                     {"window", attention_of({.window = 1}), {}},
                     {"chunk", attention_of({.chunk = 3}), {}},
                     {"both ways", attention_of({.causal = false}), {}},
                     {"sinks", attention_of({}, true), {}}},
                    DType::f32);
  const auto same = [](ProgramBuilder&, ValueId x) { return x; };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::vector<Net> heads{
        {"plain", same, {}}, {"z", same, {.z_loss = 0.1F}}, {"scale", same, {.scale = 0.5F}}, {"soft cap", same, {.soft_cap = 2.0F}}};
    if (dtype == DType::f32) heads.push_back({"rounded", same, {.round_table = true}});
    expect_all_differ(heads, dtype);
  }
  const auto root = [](RmsNormForm form) -> Body {
    return [form](ProgramBuilder& b, ValueId x) { return rms_norm(b, x, b.parameter("weight", {8}), form, "norm"); };
  };
  expect_all_differ({{"plain", root({}), {}},
                     {"epsilon", root({.epsilon = 0.5F}), {}},
                     {"offset", root({.offset = 0.5F}), {}},
                     {"round last", root({.round_first = false}), {}}},
                    DType::bf16);
  const auto layer = [](LayerNormForm form) -> Body {
    return [form](ProgramBuilder& b, ValueId x) {
      return layer_norm(b, x, b.parameter("weight", {8}), b.parameter("bias", {8}), form, "norm");
    };
  };
  expect_all_differ({{"plain", layer({}), {}}, {"epsilon", layer({.epsilon = 0.5F}), {}}, {"offset", layer({.offset = 0.5F}), {}}},
                    DType::f32);
  const auto turned = [](RopeForm form) -> Body { return [form](ProgramBuilder& b, ValueId x) { return rotated(b, x, form, "rope"); }; };
  expect_all_differ(
      {{"plain", turned({}), {}}, {"factor", turned({.factor = 1.5F}), {}}, {"interleaved", turned({.interleaved = true}), {}}},
      DType::f32);
  const auto dropped = [](double rate, const char* name) -> Body {
    return [rate, name](ProgramBuilder& b, ValueId x) { return dropout(b, x, rate, name); };
  };
  expect_all_differ({{"one", dropped(0.25, "one"), {}}, {"rate", dropped(0.5, "one"), {}}, {"place", dropped(0.25, "two"), {}}},
                    DType::f32);
}

}  // namespace
}  // namespace millrace::runtime::testing
