#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/runtime/program/rig.hpp"
#include "tests/support/expect_error.hpp"

/// The rules of the operations of sparse attention: detach, choose_keys, sparse_attention and indexer_loss.
namespace millrace::runtime::testing {
namespace {

using kernels::DType;
using kernels::Implementation;

constexpr float lm_scale = 0.125F, indexer_scale = 0.0625F;

/// Attention to two keys of each query in a row of four tokens, and the loss of the indexer that chooses them: over the chosen keys, or
/// over all.
ForwardProgram program_of(DType compute, bool all_keys) {
  ProgramBuilder builder({compute, 2, 4});
  const auto x = embedding(builder, builder.batch("tokens"), builder.parameter("table", {11, 8}), "embedding");
  builder.enter(0, "layers.0");
  const auto h = activate(builder, kernels::Activation::silu, x, "silu");
  const auto project = [&](ValueId from, const char* name, std::int64_t outputs, std::int64_t inputs) {
    return linear(builder, from, builder.parameter(name, {outputs, inputs}), name);
  };
  const auto q = project(h, "q", 8, 8), k = project(h, "k", 4, 8), v = project(h, "v", 3, 8);
  const auto constant = detach(builder, h, "detach");
  const auto index_q = project(constant, "index_q", 6, 8), index_k = project(constant, "index_k", 3, 8);
  const auto index_weights =
      linear(builder, to_f32(builder, constant, "to_f32"), builder.parameter("index_weights", {2, 8}, in_f32), "index_weights");
  const auto segments = builder.batch("segments");
  const auto keys = choose_keys(builder, index_q, index_k, index_weights, segments, {.keys_per_query = 2, .scale = 0.5F}, "choose_keys");
  builder.loss_term({.name = "indexer_loss", .auxiliary = true},
                    indexer_loss(builder, {q, k, index_q, index_k, index_weights, segments, all_keys ? ValueId{} : keys},
                                 {.head_dim = 4, .scale = 0.5F, .index_scale = 0.5F}, "indexer_loss"));
  const auto o = sparse_attention(builder, q, k, v, keys, {.head_dim = 4, .v_head_dim = 3, .scale = 0.5F}, "attention");
  const auto y = add(builder, x, project(o, "out", 8, 6), "residual");
  builder.enter(-1, "");
  builder.loss_term({.name = "lm_loss"},
                    linear_cross_entropy(builder, y, builder.parameter("head", {11, 8}), builder.batch("targets"), {}, "loss"));
  return builder.finish();
}

class Net {
 public:
  Net(DType compute, bool all_keys, Rig::Options options) : rig(program_of(compute, all_keys), SmallNet{}, std::move(options)) {
    *number<float>(rig.set.losses.at(0).scale) = indexer_scale;
    *number<float>(rig.set.losses.at(1).scale) = lm_scale;
  }
  struct Values {
    double indexer, lm;
    bool operator==(const Values&) const = default;
  };
  Values run() {
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

bool is_of_indexer(const std::string& name) { return name.starts_with("index_"); }

// The loss of the language model reaches no parameter of the indexer, and that of the indexer no other one. Parameters before the choice
// are left out: their slopes include what another choice changes.
TEST(Indexer, EachLossTrainsItsOwnParameters) {
  Net net(DType::f32, true, {});
  for (const auto& [key, gradient] : net.rig.accumulators())
    for (float& value : net.rig.master(key.first)) value *= 3;  // else all scores are nearly equal, and gradients close to 0
  net.rig.refresh();
  net.run();
  const auto gradients = net.rig.accumulators();
  EXPECT_EQ(gradients.size(), 9U);
  for (const auto& [key, gradient] : gradients) {
    const std::string& name = key.first;
    if (name == "table") continue;
    const auto values = net.rig.master(name);
    double largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float before = values[i];
      constexpr float step = 0x1p-8F;
      const auto loss_at = [&](float value) {
        values[i] = value;
        net.rig.refresh();
        const auto [indexer, lm] = net.run();
        return is_of_indexer(name) ? static_cast<double>(indexer_scale) * indexer : static_cast<double>(lm_scale) * lm;
      };
      const float high = before + step, low = before - step;
      const double above = loss_at(high), below = loss_at(low);
      values[i] = before;
      const double slope = (above - below) / (static_cast<double>(high) - static_cast<double>(low));
      // The indexer's choice may change, but not its loss over all keys. As in router_losses_test.cpp: the roundoffs of a sum of about 1
      // over the step, and the cubic part of the loss.
      EXPECT_NEAR(gradient[i], slope, 1e-4 + 1e-3 * std::abs(slope)) << name << " element " << i;
      largest = std::max(largest, std::abs(slope));
    }
    EXPECT_GT(largest, 1e-3) << name;
  }
}

TEST(Indexer, BothBackwardsAndEveryPolicyHaveOneResult) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool all_keys : {false, true})
      for (const Implementation implementation : {Implementation::reference, Implementation::fast}) {
        Net plain(dtype, all_keys, {BackwardMode::split, "none", implementation});
        const auto expected = plain.run();
        EXPECT_TRUE(std::isfinite(expected.indexer) && std::isfinite(expected.lm));
        EXPECT_GT(expected.indexer, 0);
        for (const auto mode : {BackwardMode::split, BackwardMode::fused})
          for (const char* policy : {"none", "full"}) {
            Net other(dtype, all_keys, {mode, policy, implementation});
            // A read of memory that was never written finds this.
            for (const auto region : {Region::workspace, Region::handoff, Region::stash_input, Region::stash_weight})
              other.rig.fill(region, std::byte{0x7f});
            EXPECT_EQ(other.run(), expected) << policy;
            EXPECT_EQ(plain.rig.accumulators(), other.rig.accumulators()) << policy;
          }
      }
}

// A choice is never made again, since it might come out differently.
TEST(Indexer, KeysAreKeptWhateverThePolicyIs) {
  const auto set = differentiate(program_of(DType::bf16, false), RematerializationPolicy::parse("full", {}));
  for (const auto kind : {ProgramKind::input_gradient, ProgramKind::weight_gradient})
    for (const Operation& operation : set.program(kind)) EXPECT_NE(operation.rule->name(), "choose_keys");
  EXPECT_TRUE(
      std::ranges::any_of(set.program(ProgramKind::input_gradient), [](const Operation& operation) { return operation.recomputed; }));
}

TEST(Indexer, AnEvaluationHasTheValuesOfTheTraining) {
  Net trained(DType::f32, false, {});
  const auto expected = trained.run();
  Rig evaluated(program_of(DType::f32, false), SmallNet{}, {BackwardMode::forward_only});
  evaluated.run(ProgramKind::evaluate);
  const auto value = [&](std::size_t i) {
    const auto& placement = evaluated.plan.placements.at(static_cast<std::size_t>(evaluated.set.losses[i].value.index));
    return *reinterpret_cast<const double*>(evaluated.bindings[placement.region] + placement.offset);
  };
  EXPECT_EQ(value(0), expected.indexer);
  EXPECT_EQ(value(1), expected.lm);
}

TEST(Indexer, WrongShapesNameTheOperationAndItsOperands) {
  const auto expect_refused = [](auto&& call, const std::vector<std::string>& words) {
    tests::expect_error(call, ExitCode::internal, words);
  };
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto q = builder.boundary_in(8), segments = builder.batch("segments");
  const auto project = [&](const char* name, std::int64_t width) { return linear(builder, q, builder.parameter(name, {width, 8}), name); };
  const auto k = project("k", 4), v = project("v", 3), weights = project("weights", 2), three = project("three", 3);
  const auto keys = choose_keys(builder, q, k, weights, segments, {.keys_per_query = 2}, "keys");
  expect_refused([&] { (void)choose_keys(builder, q, v, weights, segments, {}, "a"); },
                 {"'a'", "choose_keys(f32 [8, 8], f32 [8, 3], f32 [8, 2], i32 [8]), expected q [T, H * D] and k [T, D]"});
  expect_refused([&] { (void)choose_keys(builder, q, k, three, segments, {}, "b"); }, {"f32 [8, 3], i32 [8])"});
  expect_refused([&] { (void)choose_keys(builder, q, k, weights, keys, {}, "c"); }, {"i32 [8, 2])"});
  expect_refused([&] { (void)sparse_attention(builder, q, k, v, keys, {.head_dim = 3, .v_head_dim = 3}, "d"); },
                 {"'d'", "sparse_attention(f32 [8, 8], f32 [8, 4], f32 [8, 3], i32 [8, 2]), expected q [T, H * 3]"});
  expect_refused([&] { (void)sparse_attention(builder, q, k, v, keys, {.head_dim = 4, .v_head_dim = 4}, "e"); }, {"v [T, K * 4]"});
  expect_refused([&] { (void)sparse_attention(builder, q, k, v, k, {.head_dim = 4, .v_head_dim = 3}, "f"); }, {"f32 [8, 4])"});
  const auto loss = [&](ValueId index_k, ValueId lists, std::int64_t head_dim) {
    return [&builder, &q, &k, &weights, &segments, index_k, lists, head_dim] {
      (void)indexer_loss(builder, {q, k, q, index_k, weights, segments, lists}, {.head_dim = head_dim}, "g");
    };
  };
  expect_refused(loss(v, keys, 4), {"'g'", "indexer_loss(", "index_k [T, Di]"});
  expect_refused(loss(k, keys, 3), {"q [T, H * 3]"});
  expect_refused(loss(k, ValueId{}, 0), {"q [T, H * 0]"});
}

// Pairs of query and key in rows of four: with two keys 1 + 2 + 2 + 2, without a limit 1 + 2 + 3 + 4.
TEST(Indexer, CostsAreCounted) {
  for (const bool all_keys : {false, true}) {
    const auto set = differentiate(program_of(DType::f32, all_keys), {});
    const auto flops = [&](ProgramKind kind, const std::string& name) {
      for (const Operation& operation : set.program(kind))
        if (operation.name == "layers.0." + name) return cost(set, operation).flops;
      ADD_FAILURE() << "no operation " << name;
      return 0.0;
    };
    EXPECT_EQ(flops(ProgramKind::forward, "choose_keys"), 2 * 10 * 2 * (2 * 3 + 3));
    EXPECT_EQ(flops(ProgramKind::forward, "attention"), 2 * 2 * 7 * 2 * (4 + 3));
    EXPECT_EQ(flops(ProgramKind::input_gradient, "attention.dx"), 2 * 2 * 7 * 2 * (3 * 4 + 2 * 3));
    const double pairs = all_keys ? 20 : 14;
    EXPECT_EQ(flops(ProgramKind::evaluate, "indexer_loss"), pairs * (2 * 8 + 6 * 2 + 2 * 6 + 3 * 2 + 20));
    EXPECT_EQ(flops(ProgramKind::input_gradient, "indexer_loss.dx"), pairs * (2 * 8 + 6 * 2 + 6 * 6 + 3 * 2 + 20));
    EXPECT_EQ(flops(ProgramKind::forward, "detach"), 0);
  }
}

}  // namespace
}  // namespace millrace::runtime::testing
