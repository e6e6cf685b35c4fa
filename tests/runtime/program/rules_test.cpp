#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/linear_cross_entropy.hpp"
#include "kernels/matmul.hpp"
#include "tests/runtime/program/delta_net.hpp"
#include "tests/runtime/program/expert_nets.hpp"
#include "tests/runtime/program/fixed_offsets.hpp"
#include "tests/runtime/program/rig.hpp"

/// Tests every operation's gradient rules in a net of its own: the gradients of all parameters, those before the operation and
/// its own, must be the derivatives of the loss.
namespace millrace::runtime::testing {
namespace {

using kernels::Activation;
using kernels::DType;

using Body = std::function<ValueId(ProgramBuilder&, ValueId)>;

struct RuleNet {
  std::string name;
  Body body;                          // from [T, 8] to [T, 8]
  kernels::CrossEntropyOptions head;  // computes the loss
};

/// An embedding, a product whose input gradient has other contributions, the body and a residual as a layer, the head.
ForwardProgram program_of(const RuleNet& net, DType compute = DType::f32) {
  ProgramBuilder builder({compute, 2, 4});
  const auto x = embedding(builder, builder.batch("tokens"), builder.parameter("table", {11, 8}), "embedding");
  const auto h = linear(builder, x, builder.parameter("before", {8, 8}), "before");
  builder.enter(0, "layers.0");
  const auto y = add(builder, h, net.body(builder, h), "residual");
  builder.enter(-1, "");
  builder.loss_term({.name = "lm_loss"},
                    linear_cross_entropy(builder, y, builder.parameter("head", {11, 8}), builder.batch("targets"), net.head, "loss"));
  return builder.finish();
}

ValueId rotated(ProgramBuilder& builder, ValueId x, const kernels::RopeOptions& form, const char* name) {
  return rope(builder, x, builder.batch("positions"), builder.constant("frequencies", {0.7F, 0.2F}), form, name);
}

Body attention_of(kernels::AttentionOptions form, bool sinks = false) {
  form.head_dim = 4;
  return [form, sinks](ProgramBuilder& builder, ValueId x) {
    const auto k = linear(builder, x, builder.parameter("k", {4, 8}), "k"), v = linear(builder, x, builder.parameter("v", {4, 8}), "v");
    return attention(builder, rotated(builder, x, {.factor = 1.3F, .interleaved = true}, "q_rope"), rotated(builder, k, {}, "k_rope"), v,
                     builder.batch("segments"), form, "attention", sinks ? builder.parameter("sinks", {2}, in_f32) : ValueId{});
  };
}

/// Multi-head latent attention: two heads of 3 features without a position and 2 with one, which the keys share, and values of 4.
Body latent_attention(bool sinks) {
  return [sinks](ProgramBuilder& b, ValueId x) {
    const auto turned = [&](ValueId heads, std::int64_t unrotated, const char* name) {
      return rope(b, heads, b.batch("positions"), b.constant("frequency", {0.7F}),
                  {.factor = 1.3F, .interleaved = true, .unrotated = unrotated, .rotate_last = true}, name);
    };
    const auto q = linear(b, x, b.parameter("q", {10, 8}), "q");
    const auto down = split(b, linear(b, x, b.parameter("kv_a", {7, 8}), "kv_a"), {5, 2}, "down");
    const auto latent = rms_norm(b, down[0], b.parameter("kv_norm", {5}, in_f32), {1e-2F}, "kv_norm");
    const auto up = split_heads(b, linear(b, latent, b.parameter("kv_b", {14, 5}), "kv_b"), 2, {3, 4}, "up");
    const auto k = join_heads(b, {up[0], turned(down[1], 0, "k_rope")}, {.heads = 2, .shared = 1}, "k");
    return attention(b, turned(q, 3, "q_rope"), k, up[1], b.batch("segments"), {.head_dim = 5, .v_head_dim = 4, .scale = 0.7F}, "attention",
                     sinks ? b.parameter("sinks", {2}, in_f32) : ValueId{});
  };
}

/// Attention of queries that choose two of four blocks, of one key each.
Body attention_of_blocks(bool sinks) {
  return [sinks](ProgramBuilder& b, ValueId x) {
    const auto k = linear(b, x, b.parameter("k", {4, 8}), "k"), v = linear(b, x, b.parameter("v", {4, 8}), "v");
    const auto choice = choose_blocks(b, x, k, {.head_dim = 4, .block = 1, .blocks = 2}, "choice");
    return attention(b, x, k, v, b.batch("segments"), {.head_dim = 4, .scale = 0.7F, .block = 1, .blocks = 2}, "attention",
                     sinks ? b.parameter("sinks", {2}, in_f32) : ValueId{}, choice);
  };
}

std::vector<ValueId> learned_numbers(ProgramBuilder& builder, Activation activation) {
  std::vector<ValueId> numbers;
  for (std::size_t i = 0; i < kernels::activation_parameters(activation); ++i)
    numbers.push_back(builder.parameter("learned." + std::to_string(i), {1}, in_f32));
  return numbers;
}

/// Two streams of four features take what the n-grams of each token look up.
ValueId ngram_memory(ProgramBuilder& b, ValueId x) {
  const auto rows = ngram_rows(b, b.batch("tokens"), {.padding = 1, .multipliers = {3, 7, 11}, .rows = {5, 7, 11, 13}}, "rows");
  const auto e = embedding(b, rows, b.parameter("memory", {36, 2}), "memory");
  const auto norm = [&](ValueId of, const char* name) { return rms_norm(b, of, b.parameter(name, {2, 4}, in_f32), {1e-2F}, name); };
  const auto keys = norm(linear(b, e, b.parameter("keys", {8, 8}), "keys"), "key norm");
  const auto values = linear(b, e, b.parameter("values", {4, 8}), "values");
  const auto gated = context_gate(b, norm(x, "query norm"), keys, values, "gate");
  const auto taps = b.parameter("taps", {8, 1, 2}, in_f32);
  const auto segments = b.batch("segments");
  return add(b, gated, short_convolution(b, gated, taps, segments, {.silu = true, .reset_at_segments = false, .dilation = 2}, "taps"),
             "sum");
}

std::vector<RuleNet> nets() {
  std::vector<RuleNet> list{
      {"bias", [](ProgramBuilder& b, ValueId x) { return add_bias(b, x, b.parameter("bias", {8}, in_f32), "bias"); }, {}},
      {"linear_input_major",
       [](ProgramBuilder& b, ValueId x) {
         const auto wide = linear_input_major(b, x, b.parameter("wide", {8, 5}), "wide");
         return linear_input_major(b, wide, b.parameter("back", {5, 8}), "back");
       },
       {}},
      {"grouped_linear", [](ProgramBuilder& b, ValueId x) { return products_of_experts(b, x, false); }, {}},
      {"grouped_linear_input_major", [](ProgramBuilder& b, ValueId x) { return products_of_experts(b, x, true); }, {}},
      {"layer_norm",
       [](ProgramBuilder& b, ValueId x) {
         return layer_norm(b, x, b.parameter("weight", {8}, in_f32), b.parameter("bias", {8}, in_f32), {1e-2F, 0.5F}, "norm");
       },
       {}},
      {"rms_norm",
       [](ProgramBuilder& b, ValueId x) {
         return rms_norm(b, x, b.parameter("weight", {4}, in_f32), {1e-2F, 0.5F}, "norm");
       },
       {}},
      {"n-gram memory", ngram_memory, {}},
      {"delta net", DeltaNet{}, {}},
      {"delta net across documents",
       DeltaNet{.convolution = {.reset_at_segments = false}, .rule = {.head_k_dim = 4, .head_v_dim = 4, .reset_at_segments = false}},
       {}},
      {"sinusoid",
       [](ProgramBuilder& b, ValueId x) {
         return add_sinusoid(b, x, b.batch("positions"), b.constant("timescales", {1, 0.5F, 0.2F, 0.1F}), "sinusoid");
       },
       {}},
      {"scale", [](ProgramBuilder& b, ValueId x) { return scale(b, x, 1.7, "scale"); }, {}},
      {"softmax", [](ProgramBuilder& b, ValueId x) { return softmax(b, x, "softmax"); }, {}},
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
      {"blocks", attention_of_blocks(false), {}},
      {"blocks with sinks", attention_of_blocks(true), {}},
      {"latent attention", latent_attention(false), {}},
      {"latent attention with sinks", latent_attention(true), {}},
      {"rms_norm without weight", [](ProgramBuilder& b, ValueId x) { return rms_norm_without_weight(b, x, 4, {1e-2F}, "norm"); }, {}},
      {"learned number", [](ProgramBuilder& b, ValueId x) { return learned_scale(b, x, b.parameter("number", {1}, in_f32), "scale"); }, {}},
      {"temperature",
       [](ProgramBuilder& b, ValueId x) {
         return attention_temperature(b, x, b.batch("positions"), {0.3F, 2}, "temperature");
       },
       {}},
      {"shared heads",
       [](ProgramBuilder& b, ValueId x) {
         const auto own = linear(b, x, b.parameter("own", {4, 8}), "own"), shared = linear(b, x, b.parameter("shared", {2, 8}), "shared");
         return join_heads(b, {own, shared}, {.heads = 2, .shared = 1}, "join");
       },
       {}},
      {"interleaved columns",
       [](ProgramBuilder& b, ValueId x) {
         const auto parts = split_heads(b, x, 4, {1, 1}, "split");
         return linear(b, glu(b, Activation::silu, parts[0], parts[1], "glu"), b.parameter("back", {8, 4}), "back");
       },
       {}},
      {"one feature for all",
       [](ProgramBuilder& b, ValueId x) {
         const auto gate = linear(b, x, b.parameter("gate", {1, 8}), "gate");
         return glu(b, Activation::sigmoid, join_heads(b, {gate}, {.heads = 8, .shared = 1}, "copies"), x, "gated");
       },
       {}},
      {"clamped gate",
       [](ProgramBuilder& b, ValueId x) {
         return clamped_glu(b, linear(b, x, b.parameter("gate", {8, 8}), "gate"), x, {0.6F, 1.7F, 1.0F}, "glu");
       },
       {}},
      {"shaped head", [](ProgramBuilder& b, ValueId x) { return scale(b, x, 0.5, "scale"); }, {0.05F, 0.6F, 2.0F}},
  };
  for (const auto& [name, body] : expert_bodies()) list.push_back({name, body, {}});
  for (const auto activation : kernels::all_activations) {
    const std::string name(kernels::to_string(activation));
    list.push_back(
        {name,
         [activation](ProgramBuilder& b, ValueId x) { return activate(b, activation, x, "activate", learned_numbers(b, activation)); },
         {}});
    list.push_back(
        {"gated " + name,
         [activation](ProgramBuilder& b, ValueId x) {
           return glu(b, activation, linear(b, x, b.parameter("gate", {8, 8}), "gate"), x, "glu", learned_numbers(b, activation));
         },
         {}});
  }
  return list;
}

TEST(Rules, GradientsAreTheSlopesOfTheLoss) {
  for (const RuleNet& net : nets()) {
    SCOPED_TRACE(net.name);
    Rig rig(program_of(net), SmallNet{}, {});
    run(rig);
    for (const auto& [key, gradient] : rig.accumulators()) {
      // xielu rounds its learned numbers to bf16, so a small step has no slope; tests/kernels/activation_test.cpp has their gradient.
      if (net.name.ends_with("xielu") && key.first.starts_with("learned")) {
        EXPECT_NE(gradient[0], 0) << key.first;
        continue;
      }
      const auto values = rig.master(key.first);
      for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 9) {
        const float before = values[i];
        constexpr float step = 0x1p-8F;
        const auto loss_at = [&](float value) {
          values[i] = value;
          rig.refresh();
          run(rig);  // the loss is computed with the gradient
          return rig.loss();
        };
        // Divided by the exact steps in fp32.
        const float high = before + step, low = before - step;
        const double above = loss_at(high), below = loss_at(low);
        values[i] = before;
        const double slope = Rig::loss_scale * (above - below) / (static_cast<double>(high) - static_cast<double>(low));
        // The logits of six tokens in fp32, each with an error of a few roundoffs, over twice the step: 6·3·2⁻²⁴·2⁷/8 is 2e-5.
        // The cubic part of the loss, with derivatives up to a few, times step²/6 is as much again.
        EXPECT_NEAR(gradient[i], slope, 1e-4 + 1e-3 * std::abs(slope)) << key.first << " element " << i;
      }
    }
    EXPECT_GE(rig.accumulators().size(), 3U);
    // A rule without a gradient for one of its parameters would leave no accumulator to look at.
    const auto gradients = rig.accumulators();
    for (const Value& value : program_of(net).values)
      if (value.role == Role::parameter) {
        EXPECT_TRUE(gradients.contains({value.name, value.use})) << value.name;
      }
  }
}

TEST(Rules, BothBackwardsAndEveryPolicyHaveOneResult) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const RuleNet& net : nets()) {
      SCOPED_TRACE(net.name);
      Rig split(program_of(net, dtype), SmallNet{}, {BackwardMode::split, "none", kernels::Implementation::fast});
      run(split);
      EXPECT_TRUE(std::isfinite(split.loss()));
      for (const auto mode : {BackwardMode::split, BackwardMode::fused})
        for (const char* policy : {"none", "full"}) {
          Rig other(program_of(net, dtype), SmallNet{}, {mode, policy, kernels::Implementation::fast});
          // A read of memory that was never written finds this.
          for (const auto region : {Region::workspace, Region::handoff, Region::stash_input, Region::stash_weight})
            other.fill(region, std::byte{0x7f});
          run(other);
          EXPECT_EQ(split.loss(), other.loss()) << policy;
          EXPECT_EQ(split.accumulators(), other.accumulators()) << policy;
        }
    }
}

double loss_of(const RuleNet& net, DType dtype) {
  Rig rig(program_of(net, dtype), SmallNet{}, {});
  run(rig);
  return rig.loss();
}

// An option that a rule does not pass to its kernels leaves the gradients consistent but changes the loss.
TEST(Rules, EveryOptionCounts) {
  const auto expect_all_differ = [](const std::vector<RuleNet>& variants, DType dtype) {
    std::map<double, std::string> losses;
    for (const RuleNet& net : variants) {
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
                     {"both ways in a window", attention_of({.window = 2, .causal = false}), {}},
                     {"sinks", attention_of({}, true), {}}},
                    DType::f32);
  const auto same = [](ProgramBuilder&, ValueId x) { return x; };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::vector<RuleNet> heads{
        {"plain", same, {}}, {"z", same, {.z_loss = 0.1F}}, {"scale", same, {.scale = 0.5F}}, {"soft cap", same, {.soft_cap = 2.0F}}};
    if (dtype == DType::f32) heads.push_back({"rounded", same, {.round_table = true}});
    expect_all_differ(heads, dtype);
  }
  const auto root = [](kernels::RmsNormOptions form) -> Body {
    return [form](ProgramBuilder& b, ValueId x) { return rms_norm(b, x, b.parameter("weight", {8}, in_f32), form, "norm"); };
  };
  expect_all_differ({{"plain", root({}), {}},
                     {"epsilon", root({.epsilon = 0.5F}), {}},
                     {"offset", root({.offset = 0.5F}), {}},
                     {"round last", root({.round_first = false}), {}}},
                    DType::bf16);
  const auto layer = [](kernels::LayerNormOptions form) -> Body {
    return [form](ProgramBuilder& b, ValueId x) {
      return layer_norm(b, x, b.parameter("weight", {8}, in_f32), b.parameter("bias", {8}, in_f32), form, "norm");
    };
  };
  expect_all_differ({{"plain", layer({}), {}}, {"epsilon", layer({.epsilon = 0.5F}), {}}, {"offset", layer({.offset = 0.5F}), {}}},
                    DType::f32);
  const auto turned = [](kernels::RopeOptions form) -> Body {
    return [form](ProgramBuilder& b, ValueId x) { return rotated(b, x, form, "rope"); };
  };
  expect_all_differ({{"plain", turned({}), {}},
                     {"factor", turned({.factor = 1.5F}), {}},
                     {"interleaved", turned({.interleaved = true}), {}},
                     {"in part", turned({.unrotated = 4}), {}},
                     {"in the last part", turned({.unrotated = 4, .rotate_last = true}), {}}},
                    DType::f32);
  const auto warmed = [](kernels::AttentionTemperatureOptions form) -> Body {
    return [form](ProgramBuilder& b, ValueId x) { return attention_temperature(b, x, b.batch("positions"), form, "temperature"); };
  };
  expect_all_differ({{"plain", warmed({0.3F, 2}), {}}, {"scale", warmed({0.4F, 2}), {}}, {"floor", warmed({0.3F, 3}), {}}}, DType::f32);
  const auto dropped = [](double rate, const char* name) -> Body {
    return [rate, name](ProgramBuilder& b, ValueId x) { return dropout(b, x, rate, name); };
  };
  expect_all_differ({{"one", dropped(0.25, "one"), {}}, {"rate", dropped(0.5, "one"), {}}, {"place", dropped(0.25, "two"), {}}},
                    DType::f32);
}

// Each of a token's vectors is divided by its own root mean square, in bf16 as in fp32 with the bits of weights that are ones.
TEST(Rules, ANormWithoutWeightHasTheBitsOfOnes) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const RuleNet without{"without",
                          [](ProgramBuilder& b, ValueId x) {
                            return rms_norm_without_weight(b, x, 4, {1e-2F, 0.5F}, "norm");
                          },
                          {}};
    const RuleNet ones{
        "ones", [](ProgramBuilder& b, ValueId x) { return rms_norm(b, x, b.parameter("ones", {4}, in_f32), {1e-2F}, "norm"); }, {}};
    Rig plain(program_of(without, dtype), SmallNet{}, {}), weighted(program_of(ones, dtype), SmallNet{}, {});
    std::ranges::fill(weighted.master("ones"), 1.0F);
    weighted.refresh();
    run(plain);
    run(weighted);
    EXPECT_EQ(plain.loss(), weighted.loss());
    auto gradients = weighted.accumulators();
    EXPECT_EQ(gradients.erase({"ones", 0}), 1U);
    EXPECT_EQ(plain.accumulators(), gradients);
  }
}

/// The padding behind a row's text is another segment: a causal query of the text does not reach it, any other would.
TEST(Rules, OnlyCausalAttentionReliesOnWholeRows) {
  for (const bool causal : {true, false}) {
    ProgramBuilder builder({DType::f32, 2, 4, true});
    const auto x = embedding(builder, builder.batch("tokens"), builder.parameter("table", {11, 8}), "embedding");
    const auto y = attention(builder, x, x, x, builder.batch("segments"), {.head_dim = 4, .causal = causal}, "attention");
    builder.set_boundary_out(y);
    const ForwardProgram program = builder.finish();
    const auto options = program.operations.back().attributes.as<kernels::AttentionOptions>();
    EXPECT_EQ(options.causal, causal);
    EXPECT_EQ(options.one_segment, causal);
  }
}

/// Operands that a rule does not check: their kernel does.
bool is_free(std::string_view rule, std::size_t operand) {
  if (rule == "attention_input_gradient") return operand >= 5;
  if (rule == "linear_cross_entropy_weight_gradient") return operand >= 3;
  if (rule == "linear_cross_entropy_input_gradient" || rule == "linear_cross_entropy_gradients") return operand == 3;
  if (rule == "attention") return operand == 4;
  return rule == "attention_sink_gradient" ? operand == 2 : rule == "accumulate";
}

// No operand can change its type unnoticed: either the rule refuses it, or the results have other types.
TEST(Rules, OperandsOfAnotherTypeAreRefusedOrChangeTheResult) {
  for (const RuleNet& net : nets()) {
    const ProgramSet set = differentiate(program_of(net), {});
    for (const auto kind : all_program_kinds)
      for (const Operation& operation : set.program(kind)) {
        const std::string_view rule = operation.rule->name();
        if (rule == "accumulate" || rule == "copy") continue;
        SCOPED_TRACE(operation.name);
        std::vector<ValueType> types, found;
        for (const auto id : operation.inputs) types.push_back(set.value(id).type);
        const auto results = inferred_types(operation, types);
        ASSERT_FALSE(results.empty());
        const auto expect_seen = [&](std::size_t i, const char* what, auto&& change) {
          auto changed = types;
          change(changed[i]);
          EXPECT_NE(inferred_types(operation, changed), results) << rule << ": operand " << i << " with " << what;
        };
        for (std::size_t i = 0; i < types.size(); ++i) {
          if (is_free(rule, i)) continue;
          // A token has one row of a table or several: one of several is one.
          const bool rows = rule.starts_with("embedding") && i == 0;
          if (!rows) expect_seen(i, "an axis more", [](ValueType& type) { type.shape.push_back(1); });
          expect_seen(i, "dtype f64", [](ValueType& type) { type.dtype = DType::f64; });
          // Any number of taps fits.
          if ((rule == "short_convolution" && i == 1) || (rule == "short_convolution_input_gradient" && i == 2)) continue;
          expect_seen(i, "an odd last axis", [](ValueType& type) { type.shape.dimension(type.shape.rank() - 1).capacity += 1; });
        }
        const bool weighted = (rule == "gather_rows" || rule == "combine_rows") && types.size() == 3;
        const bool joins = rule == "join" || rule == "join_heads";
        if (joins || (rule == "attention" && types.size() == 5) || weighted) continue;  // may have fewer operands
        auto fewer = types;
        fewer.pop_back();
        EXPECT_TRUE(inferred_types(operation, fewer).empty()) << rule;
      }
  }
}

// Cost of an operation: FLOPs per element of its first operand, and every operand's bytes once, an accumulator's twice.
TEST(Rules, CostsAreCounted) {
  const std::map<std::string, double> flops = {{"add", 1},
                                               {"bias", 1},
                                               {"bias_weight_gradient", 1},
                                               {"clamped_glu", 10},
                                               {"clamped_glu_input_gradient", 17},
                                               {"copy", 0},
                                               {"delta_gates", 12},
                                               {"delta_gates_input_gradient", 13},
                                               {"delta_gates_weight_gradient", 17},
                                               {"dropout", 1},
                                               {"join", 0},
                                               {"l2_norm", 3},
                                               {"l2_norm_input_gradient", 5},
                                               {"layer_norm", 8},
                                               {"layer_norm_input_gradient", 11},
                                               {"layer_norm_weight_gradient", 5},
                                               {"rms_norm", 4},
                                               {"rms_norm_input_gradient", 6},
                                               {"rms_norm_input_gradient + addend", 7},
                                               {"rms_norm_weight_gradient", 3},
                                               {"rope", 3},
                                               {"scale", 1},
                                               {"softmax", 6},
                                               {"softmax_input_gradient", 4},
                                               {"split", 0},
                                               {"join_heads", 0},
                                               {"attention_temperature", 1},
                                               {"add_sinusoid", 2},
                                               {"attention_sink_gradient", 2},
                                               {"accumulate", 1},
                                               {"embedding", 0},
                                               {"grouped_bias_gradient", 1},
                                               {"silu", 4},
                                               {"gelu", 9},
                                               {"relu", 1},
                                               {"swiglu", 5},
                                               {"geglu", 10},
                                               {"reglu", 2},
                                               {"silu_input_gradient", 9},
                                               {"gelu_input_gradient", 19},
                                               {"relu_input_gradient", 3},
                                               {"swiglu_input_gradient", 11},
                                               {"geglu_input_gradient", 21},
                                               {"reglu_input_gradient", 5}};
  for (const RuleNet& net : nets()) {
    const ProgramSet set = differentiate(program_of(net), {});
    for (const auto kind : all_program_kinds)
      for (const Operation& operation : set.program(kind)) {
        const std::string rule = kind_of(operation);
        double bytes = 0;
        for (const auto id : operation.inputs) bytes += static_cast<double>(bytes_of(set.value(id).type));
        for (const auto id : operation.outputs)
          bytes += static_cast<double>(bytes_of(set.value(id).type)) * (operation.rule->accumulates() ? 2 : 1);
        const Cost found = cost(set, operation);
        // For a table only the rows that tokens select: they are read and written as y, or read, added to and written for dy.
        if (rule == "embedding")
          bytes = static_cast<double>(bytes_of(set.value(operation.inputs[0]).type) + 2 * bytes_of(set.value(operation.outputs[0]).type));
        if (rule == "embedding_weight_gradient")
          bytes = static_cast<double>(bytes_of(set.value(operation.inputs[0]).type) + 3 * bytes_of(set.value(operation.inputs[1]).type));
        EXPECT_EQ(found.bytes, bytes) << rule;
        if (const auto known = flops.find(rule); known != flops.end()) {
          const auto elements = static_cast<double>(set.value(operation.inputs[0]).type.shape.elements());
          EXPECT_EQ(found.flops, known->second * elements) << rule;
        }
      }
  }
}

// The first result has the name of its operation, the others have a suffix, which captures, break points and printed programs show.
TEST(Rules, ResultsBesideTheFirstAreNamed) {
  using Words = std::vector<std::string>;
  const std::map<std::string_view, Words> words = {{"layer_norm", {"", ".mean", ".r"}},
                                                   {"rms_norm", {"", ".r"}},
                                                   {"attention", {"", ".log_sum_exp"}},
                                                   {"clamped_glu_input_gradient", {"", ".up"}},
                                                   {"delta_gates", {"", ".beta"}},
                                                   {"delta_gates_input_gradient", {"", ".b"}},
                                                   {"gated_delta_rule_input_gradient", {"", ".k", ".v", ".g", ".beta"}},
                                                   {"l2_norm", {"", ".r"}},
                                                   {"attention_input_gradient", {"", ".k", ".v"}},
                                                   {"linear_cross_entropy", {"", ".log_sum_exp"}},
                                                   {"swiglu_input_gradient", {"", ".up"}},
                                                   {"geglu_input_gradient", {"", ".up"}},
                                                   {"reglu_input_gradient", {"", ".up"}},
                                                   {"sort_by_expert", {"", ".offsets"}},
                                                   {"split", {"", ".1", ".2"}},
                                                   {"split_heads", {"", ".1"}}};
  std::map<std::string_view, int> found;
  for (const RuleNet& net : nets()) {
    const ProgramSet set = differentiate(program_of(net), {});
    for (const auto kind : {ProgramKind::evaluate, ProgramKind::input_gradient})
      for (const Operation& operation : set.program(kind)) {
        const auto known = words.find(operation.rule->name());
        if (known == words.end()) continue;
        Words names;
        for (const auto id : operation.outputs) names.push_back(set.value(id).name);
        Words expected;
        for (const std::string& word : known->second) expected.push_back(operation.name + word);
        if (known->first.starts_with("split")) expected.resize(std::min(names.size(), expected.size()));  // into fewer parts, some of them
        EXPECT_EQ(names, expected) << known->first;
        ++found[known->first];
      }
  }
  EXPECT_EQ(found.size(), words.size());
}

// A table could not distinguish several values with the same name.
TEST(Rules, EveryValueHasANameOfItsOwn) {
  for (const RuleNet& net : nets()) {
    const ProgramSet set = differentiate(program_of(net), {});
    std::map<std::tuple<Role, int, WeightForm, std::string>, int> times;
    for (const Value& value : set.values) ++times[{value.role, value.use, value.form, value.name}];
    for (const auto& [key, count] : times) EXPECT_EQ(count, 1) << net.name << ": " << std::get<3>(key);
  }
}

// A rule plans the scratch that its kernel needs, with the shape of each operand; all sizes differ, so that swapped rows and
// columns are detected.
TEST(Rules, ScratchIsThatOfTheKernel) {
  const auto bytes = [](const Operation& operation, const std::vector<ValueType>& inputs, int threads) {
    const auto outputs = operation.rule->infer(inputs, operation.attributes);
    return operation.rule->scratch_bytes(inputs, outputs, operation.attributes, threads);
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    ProgramBuilder builder({dtype, 30, 10});
    const auto x = builder.boundary_in(40);
    const auto y = linear(builder, x, builder.parameter("w", {56, 40}), "y");
    builder.loss_term({.name = "lm_loss"},
                      linear_cross_entropy(builder, y, builder.parameter("head", {2000, 56}), builder.batch("targets"), {}, "loss"));
    const auto set = differentiate(builder.finish(), {});
    std::map<std::string, std::size_t> planned;
    for (const int threads : {1, 3})
      for (const auto kind : all_program_kinds)
        for (const Operation& operation : set.program(kind)) {
          std::vector<ValueType> types;
          for (const auto id : operation.inputs) types.push_back(set.value(id).type);
          const std::string_view rule = operation.rule->name();
          if (rule.starts_with("linear_cross_entropy")) {
            EXPECT_EQ(bytes(operation, types, threads),
                      kernels::linear_cross_entropy_scratch_bytes({300, 56}, {2000, 56}, dtype, {}, threads))
                << rule;
            ++planned["head"];
          } else if (operation.name == "y") {
            const bool packed = set.value(operation.inputs[1]).form != WeightForm::plain;
            EXPECT_EQ(bytes(operation, types, threads),
                      kernels::matmul_scratch_bytes({300, 40}, {56, 40}, dtype, dtype, {.transpose_b = true, .packed_b = packed}, threads));
            ++planned["y"];
          } else if (operation.name == "y.dw") {
            EXPECT_EQ(bytes(operation, types, threads), kernels::matmul_scratch_bytes({300, 56}, {300, 40}, dtype, DType::f32,
                                                                                      {.transpose_a = true, .accumulate = true}, threads));
            ++planned["y.dw"];
          }
        }
    EXPECT_EQ(planned.size(), 3U);
    EXPECT_EQ(planned["head"], 2U * 4U);
  }
}

// Logits are computed for sampling and have no gradient, so no net above ends in them.
TEST(Rules, LogitsTakeAMatrixAndATableOfOneDtype) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(6);
  builder.set_logits(logits(builder, x, builder.parameter("head", {11, 6}), {}, "logits"));
  const ForwardProgram program = builder.finish();
  const Operation& operation = program.operations.front();
  using Types = std::vector<ValueType>;
  const Types taken{{DType::f32, {8, 6}}, {DType::f32, {11, 6}}};
  EXPECT_EQ(inferred_types(operation, taken), (Types{{DType::f32, {8, 11}}}));
  EXPECT_EQ(inferred_types(operation, {{DType::bf16, {8, 6}}, {DType::bf16, {11, 6}}}), (Types{{DType::f32, {8, 11}}}));
  const std::vector<Types> refused{{taken[0]},
                                   {taken[0], taken[1], taken[1]},
                                   {{DType::bf16, {8, 6}}, taken[1]},
                                   {taken[0], {DType::bf16, {11, 6}}},
                                   {{DType::f32, {8, 7}}, taken[1]},
                                   {{DType::f32, {48}}, taken[1]},
                                   {{DType::f32, {8, 6, 1}}, {DType::f32, {11, 6, 1}}},
                                   {taken[0], {DType::f32, {66}}},
                                   {{DType::i32, {8, 6}}, {DType::i32, {11, 6}}},
                                   {{DType::f64, {8, 6}}, {DType::f64, {11, 6}}}};
  for (std::size_t i = 0; i < refused.size(); ++i) EXPECT_TRUE(inferred_types(operation, refused[i]).empty()) << i;
  const Types results = inferred_types(operation, taken);
  const Cost cost = operation.rule->cost(taken, results, operation.attributes);
  EXPECT_EQ(cost.flops, 2.0 * 8 * 6 * 11);
  EXPECT_EQ(cost.bytes, 4.0 * (8 * 6 + 11 * 6 + 8 * 11));
}

}  // namespace
}  // namespace millrace::runtime::testing
