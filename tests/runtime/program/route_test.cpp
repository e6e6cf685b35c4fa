#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "kernels/packing.hpp"
#include "kernels/route.hpp"
#include "tests/runtime/program/rig.hpp"
#include "tests/support/expect_error.hpp"

/// The rules of `route` and `to_f32`, and matrices that are read in fp32, in a program of a router in fp32 whatever the rest computes in.
namespace millrace::runtime::testing {
namespace {

using kernels::DType;
using kernels::RouteOptions;
using kernels::RouterBias;
using kernels::RouterScore;
using kernels::RouterWeight;

constexpr std::int64_t kExperts = 6;

struct Rule {
  std::string name;
  RouteOptions options;
};

std::vector<Rule> rules_of_routers() {
  return {{"Mixtral", {.experts_per_token = 2, .normalise = true}},
          {"shares", {.experts_per_token = 3, .scale = 2.0F}},
          {"GPT-OSS", {.experts_per_token = 3, .score = RouterScore::logit, .bias = RouterBias::score, .weight = RouterWeight::softmax}},
          {"Llama 4", {.score = RouterScore::logit, .weight = RouterWeight::sigmoid}},
          {"DeepSeek-V3",
           {.experts_per_token = 3,
            .score = RouterScore::sigmoid,
            .bias = RouterBias::choice,
            .groups = 3,
            .kept_groups = 2,
            .normalise = true,
            .sum_epsilon = 1e-20F,
            .scale = 2.5F}},
          {"softplus", {.experts_per_token = 4, .score = RouterScore::sqrt_softplus, .bias = RouterBias::choice, .normalise = true}},
          {"biased shares", {.experts_per_token = 2, .bias = RouterBias::score}}};
}

/// An embedding, a product, a router in fp32 that has weights of its own, and from there on everything in fp32: what the weights of the
/// chosen experts yield, the residual, the head.
ForwardProgram program_of(const RouteOptions& options, DType compute = DType::f32) {
  ProgramBuilder builder({compute, 2, 4});
  const auto x = embedding(builder, builder.batch("tokens"), builder.parameter("table", {11, 8}), "embedding");
  const auto h = linear(builder, x, builder.parameter("before", {8, 8}), "before");
  builder.enter(0, "layers.0");
  const auto wide = to_f32(builder, h, "to_f32");
  const auto logits = add_bias(builder, linear(builder, wide, builder.parameter("router", {kExperts, 8}, in_f32), "router"),
                               builder.parameter("offset", {kExperts}, in_f32), "logits");
  ValueId bias;
  if (options.bias == RouterBias::choice) bias = builder.constant("choice", {0.3F, -0.2F, 0.1F, 0.4F, 0.0F, -0.1F});
  if (options.bias == RouterBias::score) bias = builder.parameter("bias", {kExperts}, in_f32);
  const Routing routing = route(builder, logits, options, "route", bias);
  const auto y = linear(builder, routing.weights, builder.parameter("mix", {8, options.experts_per_token}, in_f32), "mix");
  const auto sum = add(builder, wide, y, "residual");
  builder.enter(-1, "");
  builder.loss_term({.name = "lm_loss"},
                    linear_cross_entropy(builder, sum, builder.parameter("head", {11, 8}, in_f32), builder.batch("targets"), {}, "loss"));
  return builder.finish();
}

/// Logits far from each other, so that a small step of a weight chooses no other experts.
void spread(Rig& rig) {
  const float offsets[] = {0.5F, -1.0F, 2.0F, -2.0F, 1.2F, -0.2F};
  std::copy(std::begin(offsets), std::end(offsets), rig.master("offset").begin());
  rig.refresh();
}

TEST(Route, GradientsAreTheSlopesOfTheLoss) {
  for (const Rule& rule : rules_of_routers()) {
    SCOPED_TRACE(rule.name);
    Rig rig(program_of(rule.options), SmallNet{}, {});
    spread(rig);
    run(rig);
    const auto gradients = rig.accumulators();
    const bool biased = rule.options.bias == RouterBias::score;
    EXPECT_EQ(gradients.size(), biased ? 7U : 6U);
    EXPECT_EQ(gradients.contains({"bias", 0}), biased);
    for (const auto& [key, gradient] : gradients) {
      EXPECT_TRUE(std::any_of(gradient.begin(), gradient.end(), [](float each) { return std::abs(each) > 1e-4F; })) << key.first;
      const auto values = rig.master(key.first);
      for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 13) {
        const float before = values[i];
        constexpr float step = 0x1p-8F;
        const auto loss_at = [&](float value) {
          values[i] = value;
          rig.refresh();
          run(rig);
          return rig.loss();
        };
        const float high = before + step, low = before - step;
        const double above = loss_at(high), below = loss_at(low);
        values[i] = before;
        const double slope = Rig::loss_scale * (above - below) / (static_cast<double>(high) - static_cast<double>(low));
        // As in rules_test.cpp: the roundoffs of six tokens' logits, and the cubic part of the loss.
        EXPECT_NEAR(gradient[i], slope, 1e-4 + 1e-3 * std::abs(slope)) << key.first << " element " << i;
      }
    }
  }
}

TEST(Route, BothBackwardsAndEveryPolicyHaveOneResult) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto implementation : {kernels::Implementation::fast, kernels::Implementation::reference})
      for (const Rule& rule : rules_of_routers()) {
        SCOPED_TRACE(rule.name);
        Rig split(program_of(rule.options, dtype), SmallNet{}, {BackwardMode::split, "none", implementation});
        run(split);
        EXPECT_TRUE(std::isfinite(split.loss()));
        for (const auto mode : {BackwardMode::split, BackwardMode::fused})
          for (const char* policy : {"none", "full"}) {
            Rig other(program_of(rule.options, dtype), SmallNet{}, {mode, policy, implementation});
            // A read of memory that was never written finds this.
            for (const auto region : {Region::workspace, Region::handoff, Region::stash_input, Region::stash_weight})
              other.fill(region, std::byte{0x7f});
            run(other);
            EXPECT_EQ(split.loss(), other.loss()) << policy;
            EXPECT_EQ(split.accumulators(), other.accumulators()) << policy;
          }
      }
}

/// bf16 rounds what comes before the router: x, the product, their gradients. The rest is as precise as with fp32.
TEST(Route, AProgramInBf16HasNearlyTheGradientsOfOneInFp32) {
  for (const Rule& rule : rules_of_routers()) {
    SCOPED_TRACE(rule.name);
    Rig wide(program_of(rule.options), SmallNet{}, {}), narrow(program_of(rule.options, DType::bf16), SmallNet{}, {});
    for (Rig* rig : {&wide, &narrow}) {
      spread(*rig);
      run(*rig);
    }
    const auto expected = wide.accumulators(), found = narrow.accumulators();
    for (const auto& [key, gradient] : expected) {
      float largest = 0;
      for (const float each : gradient) largest = std::max(largest, std::abs(each));
      // Some ten roundings to bf16 in a row.
      for (std::size_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(found.at(key)[i], gradient[i], 10 * 0x1p-8F * largest) << key.first;
    }
  }
}

double loss_of(const RouteOptions& options) {
  Rig rig(program_of(options), SmallNet{}, {});
  run(rig);
  return rig.loss();
}

// An option that the rule does not pass on leaves the gradients consistent but changes the loss.
TEST(Route, EveryOptionCounts) {
  const RouteOptions plain{.experts_per_token = 2};
  std::map<double, std::string> losses;
  const auto expect_new = [&](const char* name, auto&& change) {
    RouteOptions options = plain;
    change(options);
    const auto [found, is_new] = losses.emplace(loss_of(options), name);
    EXPECT_TRUE(is_new) << name << " has the loss of " << found->second;
  };
  expect_new("plain", [](RouteOptions&) {});
  expect_new("more experts", [](RouteOptions& options) { options.experts_per_token = 3; });
  expect_new("logit", [](RouteOptions& options) { options.score = RouterScore::logit; });
  expect_new("sigmoid", [](RouteOptions& options) { options.score = RouterScore::sigmoid; });
  expect_new("softplus", [](RouteOptions& options) { options.score = RouterScore::sqrt_softplus; });
  expect_new("choice", [](RouteOptions& options) { options.bias = RouterBias::choice; });
  expect_new("bias", [](RouteOptions& options) { options.bias = RouterBias::score; });
  expect_new("groups", [](RouteOptions& options) { options.groups = 3; });
  expect_new("group best", [](RouteOptions& options) { options.groups = 3, options.group_best = 1; });
  expect_new("kept groups", [](RouteOptions& options) { options.experts_per_token = 3, options.groups = 3, options.kept_groups = 2; });
  expect_new("softmax", [](RouteOptions& options) { options.weight = RouterWeight::softmax; });
  expect_new("weight sigmoid", [](RouteOptions& options) { options.weight = RouterWeight::sigmoid; });
  expect_new("normalise", [](RouteOptions& options) { options.normalise = true; });
  expect_new("epsilon", [](RouteOptions& options) { options.normalise = true, options.sum_epsilon = 0.5F; });
  expect_new("scale", [](RouteOptions& options) { options.scale = 1.5F; });
}

const Operation& operation_of(const ProgramSet& set, ProgramKind kind, std::string_view name) {
  const auto& program = set.program(kind);
  const auto found = std::ranges::find(program, name, &Operation::name);
  if (found == program.end()) throw std::runtime_error("no operation " + std::string(name));
  return *found;
}

TEST(Route, ResultsAreNamedAndTyped) {
  const auto set = differentiate(program_of({.experts_per_token = 2, .bias = RouterBias::score}, DType::bf16), {});
  const Operation& forward = operation_of(set, ProgramKind::forward, "layers.0.route");
  ASSERT_EQ(forward.outputs.size(), 2U);
  EXPECT_EQ(set.value(forward.outputs[1]).name, "layers.0.route.experts");
  EXPECT_EQ(set.value(forward.outputs[0]).type, (ValueType{DType::f32, {8, 2}}));
  EXPECT_EQ(set.value(forward.outputs[1]).type, (ValueType{DType::i32, {8, 2}}));
  const Operation& back = operation_of(set, ProgramKind::input_gradient, "layers.0.route.dx");
  EXPECT_EQ(set.value(back.outputs[0]).type, (ValueType{DType::f32, {8, kExperts}}));
  EXPECT_EQ(set.value(operation_of(set, ProgramKind::input_gradient, "layers.0.to_f32.dx").outputs[0]).type,
            (ValueType{DType::bf16, {8, 8}}));
  EXPECT_EQ(operation_of(set, ProgramKind::weight_gradient, "layers.0.route.db").rule->name(), "route_bias_gradient");
  for (const Operation* operation : {&forward, &back}) EXPECT_EQ(operation->rule->kernel_rows().size(), 1U);
  // Logits in bf16 have weights in fp32 too.
  ProgramBuilder builder({DType::bf16, 2, 4});
  const Routing routing = route(builder, builder.boundary_in(6), {}, "route");
  EXPECT_EQ(builder.type(routing.weights), (ValueType{DType::f32, {8, 1}}));
  EXPECT_EQ(builder.type(routing.experts), (ValueType{DType::i32, {8, 1}}));
}

TEST(Route, OperandsOfAnotherTypeAreRefusedOrChangeTheResult) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Rule& rule : rules_of_routers()) {
      SCOPED_TRACE(rule.name);
      const ProgramSet set = differentiate(program_of(rule.options, dtype), {});
      for (const auto kind : all_program_kinds)
        for (const Operation& operation : set.program(kind)) {
          if (!operation.rule->name().starts_with("route") && !operation.rule->name().starts_with("to_f32")) continue;
          SCOPED_TRACE(operation.name);
          std::vector<ValueType> types;
          for (const auto id : operation.inputs) types.push_back(set.value(id).type);
          const auto results = inferred_types(operation, types);
          ASSERT_FALSE(results.empty());
          const auto expect_seen = [&](std::size_t i, const char* what, auto&& change) {
            auto changed = types;
            change(changed[i]);
            EXPECT_NE(inferred_types(operation, changed), results) << "operand " << i << " with " << what;
          };
          for (std::size_t i = 0; i < types.size(); ++i) {
            expect_seen(i, "an axis more", [](ValueType& type) { type.shape.push_back(1); });
            expect_seen(i, "dtype f64", [](ValueType& type) { type.dtype = DType::f64; });
            const bool logits_of_route = operation.rule->name() == "route" && i == 0 && types.size() == 1;
            if (!logits_of_route)
              expect_seen(i, "an odd last axis", [](ValueType& type) { type.shape.dimension(type.shape.rank() - 1).capacity += 1; });
            expect_seen(i, "an odd first axis", [](ValueType& type) { type.shape.dimension(0).capacity += 1; });
          }
          for (const bool more : {false, true}) {
            auto other = types;
            if (more)
              other.push_back(types.back());
            else
              other.pop_back();
            EXPECT_TRUE(inferred_types(operation, other).empty());
          }
        }
    }
}

TEST(Route, WrongOperandsAndOptionsAreNamed) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(6);
  builder.enter(3, "layers.3");
  const auto expect_refused = [](auto&& call, const std::vector<std::string>& words) {
    tests::expect_error(call, ExitCode::internal, words);
  };
  expect_refused([&] { (void)route(builder, builder.batch("tokens"), {}, "route"); }, {"layers.3.route", "i32 [8]", "logits [T, E]"});
  expect_refused([&] { (void)route(builder, x, {.bias = RouterBias::choice}, "route"); }, {"layers.3.route", "a bias f32 [E]"});
  expect_refused([&] { (void)route(builder, x, {}, "route", builder.constant("six", {1, 2, 3, 4, 5, 6})); }, {"f32 [6]", "logits [T, E]"});
  expect_refused([&] { (void)route(builder, x, {.bias = RouterBias::choice}, "route", builder.constant("two", {1, 2})); }, {"f32 [2]"});
  expect_refused([&] { (void)route(builder, x, {.experts_per_token = 7}, "route"); }, {"layers.3.route", "7 experts per token", "1 to 6"});
  expect_refused([&] { (void)to_f32(builder, builder.batch("tokens"), "wide"); }, {"layers.3.wide", "i32 [8]", "bf16 [T, D]"});
}

TEST(Route, CostsAreCounted) {
  const RouteOptions options{.experts_per_token = 2, .bias = RouterBias::score, .groups = 3, .kept_groups = 1, .normalise = true};
  const auto set = differentiate(program_of(options, DType::bf16), {});
  const auto found = [&](ProgramKind kind, const char* name) { return cost(set, operation_of(set, kind, name)); };
  // Tokens, experts and choices: 8, 6, 2. Four for each share and one for its bias, three groups of two, and for a weight the sum, the
  // quotient and the scale.
  const Cost forward = found(ProgramKind::forward, "layers.0.route");
  EXPECT_EQ(forward.flops, 8.0 * (6 * 5 + 3 * 2 + 2 * 3));
  EXPECT_EQ(forward.bytes, 4.0 * (8 * 6 + 6 + 2 * 8 * 2));
  // Shares and biased scores again, then weights, scale and normalisation.
  const double to_scores = 6 * 4 + 2 * 1 + 2 * (3 + 1 + 5);
  const Cost back = found(ProgramKind::input_gradient, "layers.0.route.dx");
  EXPECT_EQ(back.flops, 8.0 * (to_scores + 6 + 4 * 2));
  EXPECT_EQ(back.bytes, 4.0 * (2 * 8 * 2 + 2 * 8 * 6 + 6));
  const Cost bias = found(ProgramKind::weight_gradient, "layers.0.route.db");
  EXPECT_EQ(bias.flops, 8.0 * (to_scores + 2));
  EXPECT_EQ(bias.bytes, 4.0 * (2 * 8 * 2 + 8 * 6 + 6 + 2 * 6));
  for (const Cost& converted : {found(ProgramKind::forward, "layers.0.to_f32"), found(ProgramKind::input_gradient, "layers.0.to_f32.dx")}) {
    EXPECT_EQ(converted.flops, 0);
    EXPECT_EQ(converted.bytes, 8.0 * 8 * (2 + 4));
  }
}

TEST(ToF32, GivesBackWhatIsF32Already) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(6);
  EXPECT_EQ(to_f32(builder, x, "wide"), x);
  ProgramBuilder half({DType::bf16, 2, 4});
  const auto y = half.boundary_in(6), wide = to_f32(half, y, "wide");
  EXPECT_FALSE(wide == y);
  EXPECT_EQ(half.type(wide), (ValueType{DType::f32, {8, 6}}));
  EXPECT_EQ(to_f32(half, wide, "wider"), wide);
}

/// A matrix in fp32 is multiplied as such in a program of bf16, packed too, and summed into as any other.
TEST(F32Matrix, IsReadInF32WhereTheRestIsBf16) {
  const ProgramSet set = differentiate(program_of({.experts_per_token = 2}, DType::bf16), {});
  for (const auto& [kind, name] :
       {std::pair{ProgramKind::forward, "layers.0.router"}, {ProgramKind::input_gradient, "layers.0.router.dx"}}) {
    const Operation& product = operation_of(set, kind, name);
    const Value& weight = set.value(product.inputs[1]);
    EXPECT_EQ(weight.name, "router");
    EXPECT_EQ(weight.type, (ValueType{DType::f32, {kExperts, 8}}));
    EXPECT_EQ(weight.form != WeightForm::plain, kernels::packs_operands());
    EXPECT_EQ(set.value(product.outputs[0]).type.dtype, DType::f32);
  }
  const Operation& gradient = operation_of(set, ProgramKind::weight_gradient, "layers.0.router.dw");
  EXPECT_EQ(set.value(gradient.inputs[1]).type, (ValueType{DType::f32, {8, 8}}));
  EXPECT_EQ(set.value(gradient.outputs[0]).type, (ValueType{DType::f32, {kExperts, 8}}));

  for (const auto implementation : {kernels::Implementation::fast, kernels::Implementation::reference}) {
    Rig rig(program_of({.experts_per_token = 2}, DType::bf16), SmallNet{}, {BackwardMode::split, "none", implementation});
    run(rig);
    const double before = rig.loss();
    // Changes that bf16 would round away.
    for (float& weight : rig.master("router")) weight = kernels::to_float(kernels::to_bfloat16(weight)) * (1 + 0x1p-11F);
    rig.refresh();
    run(rig);
    const double above = rig.loss();
    for (float& weight : rig.master("router")) weight = kernels::to_float(kernels::to_bfloat16(weight));
    rig.refresh();
    run(rig);
    EXPECT_NE(rig.loss(), above);
    EXPECT_NE(rig.loss(), before);
  }
}

}  // namespace
}  // namespace millrace::runtime::testing
