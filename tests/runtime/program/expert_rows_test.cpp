#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/runtime/program/expert_nets.hpp"
#include "tests/runtime/program/rig.hpp"
#include "tests/support/expect_error.hpp"

/// Beside what rules_test.cpp tests of all rules: its nets have the gradients and policies of these operations.
namespace millrace::runtime::testing {
namespace {

using kernels::DType;

ForwardProgram program_of(const SmallNet& net, const std::function<ValueId(ProgramBuilder&, ValueId)>& body) {
  ProgramBuilder builder({net.compute, net.rows, net.sequence});
  const auto x = embedding(builder, builder.batch("tokens"), builder.parameter("table", {net.vocabulary, 8}), "embedding");
  builder.loss_term({.name = "lm_loss"}, linear_cross_entropy(builder, body(builder, x), builder.parameter("head", {net.vocabulary, 8}),
                                                              builder.batch("targets"), {}, "loss"));
  return builder.finish();
}

TEST(ExpertRows, WrongShapesNameTheOperationAndItsOperands) {
  const auto expect_refused = [](auto&& call, const std::vector<std::string>& words) {
    tests::expect_error(call, ExitCode::internal, words);
  };
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(8);
  builder.enter(3, "layers.3");
  const auto experts = experts_of_tokens(builder, 2, 5, "experts");
  const auto [places, offsets] = sort_by_expert(builder, experts, 5, "sort");
  EXPECT_EQ(builder.type(places), (ValueType{DType::i32, {8, 2}}));
  EXPECT_EQ(builder.type(offsets), (ValueType{DType::i32, {6}}));
  const auto rows = gather_rows(builder, x, places, "gather");
  EXPECT_EQ(builder.type(rows), (ValueType{DType::f32, {16, 8}}));
  EXPECT_EQ(builder.type(combine_rows(builder, rows, places, "combine")), (ValueType{DType::f32, {8, 8}}));
  const auto narrow = leading_columns(builder, x, 1, "narrow");
  expect_refused([&] { (void)sort_by_expert(builder, x, 5, "a"); }, {"layers.3.a", "sort_by_expert(f32 [8, 8])", "of 5 experts"});
  expect_refused([&] { (void)sort_by_expert(builder, experts, 0, "b"); }, {"layers.3.b", "of 0 experts"});
  expect_refused([&] { (void)gather_rows(builder, rows, places, "c"); },
                 {"layers.3.c", "gather_rows(f32 [16, 8], i32 [8, 2]), expected x [T, D]"});
  expect_refused([&] { (void)gather_rows(builder, x, offsets, "d"); }, {"layers.3.d", "i32 [6]"});
  expect_refused([&] { (void)gather_rows(builder, x, places, "e", narrow); }, {"layers.3.e", "f32 [8, 1]"});
  expect_refused([&] { (void)combine_rows(builder, x, places, "f"); },
                 {"layers.3.f", "combine_rows(f32 [8, 8], i32 [8, 2]), expected rows [T * K, D]"});
  expect_refused([&] { (void)combine_rows(builder, rows, places, "g", narrow); }, {"layers.3.g", "f32 [8, 1]"});
}

// The eight tokens have width 8. Each has two choices that are weighted behind their experts, or three that are weighted before them.
TEST(ExpertRows, FlopsAreCounted) {
  constexpr double of_tokens = 8 * 8;
  const std::vector<std::map<std::string, double>> expected = {{{"sort", 0},
                                                                {"gather", 0},
                                                                {"combine", 2 * 2 * of_tokens},
                                                                {"gather.dx", 2 * of_tokens},
                                                                {"combine.dx", 2 * of_tokens},
                                                                {"combine.d_weights", 2 * 2 * of_tokens}},
                                                               {{"sort", 0},
                                                                {"gather", 3 * of_tokens},
                                                                {"combine", 3 * of_tokens},
                                                                {"gather.dx", 2 * 3 * of_tokens},
                                                                {"gather.d_weights", 2 * 3 * of_tokens},
                                                                {"combine.dx", 0}}};
  const auto bodies = expert_bodies();
  ASSERT_EQ(bodies.size(), expected.size());
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    const ProgramSet set = differentiate(program_of({}, bodies[i].second), {});
    std::map<std::string, double> found;
    for (const auto kind : {ProgramKind::forward, ProgramKind::input_gradient})
      for (const Operation& operation : set.program(kind)) found[operation.name] = cost(set, operation).flops;
    for (const auto& [name, flops] : expected[i]) {
      ASSERT_TRUE(found.contains(name)) << name;
      EXPECT_EQ(found.at(name), flops) << bodies[i].first << ": " << name;
    }
  }
}

/// Rows in the order of experts, whatever the policy: integers are kept, so the backward reads the places that the forward used.
TEST(ExpertRows, PlacesAreNeverComputedAgain) {
  for (const auto& [name, body] : expert_bodies()) {
    const auto in_a_layer = [&](ProgramBuilder& builder, ValueId x) {
      builder.enter(0, "layers.0");
      const auto y = body(builder, x);
      builder.enter(-1, "");
      return y;
    };
    const auto set = differentiate(program_of({}, in_a_layer), RematerializationPolicy::parse("full", labels()));
    int gathers = 0;
    for (const Operation& operation : set.program(ProgramKind::input_gradient)) {
      EXPECT_NE(operation.rule->name(), "sort_by_expert") << name;
      gathers += operation.rule->name() == "gather_rows" && operation.recomputed ? 1 : 0;
    }
    EXPECT_EQ(gathers, 1) << name;
  }
}

}  // namespace
}  // namespace millrace::runtime::testing
