#include "runtime/passes/fuse_sums.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/passes/differentiate.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::runtime {
namespace {

using kernels::DType;

std::vector<std::string> rules_of(const ProgramSet& set, ProgramKind kind) {
  std::vector<std::string> names;
  for (const auto& operation : set.program(kind)) names.emplace_back(operation.rule->name());
  return names;
}

using Names = std::vector<std::string>;

TEST(FuseSums, AResidualJoinsItsProductWithTheProductsLabel) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(8);
  builder.enter(0, "layers.0");
  const auto y = linear(builder, x, builder.parameter("w", {8, 8}), "o");
  builder.label(y, "out_proj");
  builder.set_boundary_out(add(builder, x, y, "residual"));
  const auto set = differentiate(builder.finish(), {});
  EXPECT_EQ(rules_of(set, ProgramKind::forward), (Names{"linear_plus"}));
  const auto& product = set.program(ProgramKind::forward)[0];
  EXPECT_EQ(product.inputs[2], set.boundary_in);
  EXPECT_EQ(set.value(product.outputs[0]).labels, (Names{"out_proj"}));
  // Backward: the residual's gradient is the result's, and dx is added to it by the product.
  EXPECT_EQ(rules_of(set, ProgramKind::input_gradient), (Names{"linear_input_gradient_plus"}));
  EXPECT_EQ(set.program(ProgramKind::input_gradient)[0].inputs[2], set.gradient_in);
}

TEST(FuseSums, WhatSomebodyElseReadsStays) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(8);
  const auto y = linear(builder, x, builder.parameter("w", {8, 8}), "o");
  builder.set_boundary_out(add(builder, swiglu(builder, y, x, "swiglu"), y, "sum"));
  EXPECT_EQ(rules_of(differentiate(builder.finish(), {}), ProgramKind::forward), (Names{"linear", "swiglu", "add"}));
}

TEST(FuseSums, WhatLeavesStays) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(8);
  const auto y = linear(builder, x, builder.parameter("w", {8, 8}), "o");
  (void)add(builder, x, y, "sum");
  builder.set_boundary_out(y);
  EXPECT_EQ(rules_of(differentiate(builder.finish(), {}), ProgramKind::forward), (Names{"linear", "add"}));
}

// The gradient of the first sum is that of both its operands: of what came in, and, with another, of the embedding's.
TEST(FuseSums, AGradientThatLeavesStays) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(8), e = embedding(builder, builder.batch("tokens"), builder.parameter("table", {11, 8}), "e");
  const auto left = linear(builder, add(builder, x, e, "s"), builder.parameter("left", {8, 8}), "left");
  builder.set_boundary_out(add(builder, left, linear(builder, e, builder.parameter("right", {8, 8}), "right"), "out"));
  const auto set = differentiate(builder.finish(), {});
  int writers = 0;
  for (const auto& operation : set.program(ProgramKind::input_gradient))
    for (const auto output : operation.outputs) writers += output == set.gradient_out || set.value(output).name == "left.dx" ? 1 : 0;
  EXPECT_GE(writers, 1);
  for (const auto& operation : set.program(ProgramKind::input_gradient))
    for (const auto input : operation.inputs) {
      if (set.value(input).role != Role::intermediate) continue;
      bool written = false;
      for (const auto kind : {ProgramKind::forward, ProgramKind::input_gradient})
        for (const auto& other : set.program(kind)) written = written || std::ranges::find(other.outputs, input) != other.outputs.end();
      EXPECT_TRUE(written) << operation.name << " reads '" << set.value(input).name << "', which nobody writes";
    }
}

TEST(FuseSums, NothingIsFusedAcrossALayer) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(8);
  builder.enter(0, "layers.0");
  const auto y = linear(builder, x, builder.parameter("w", {8, 8}), "o");
  builder.enter(1, "layers.1");
  builder.set_boundary_out(add(builder, x, y, "sum"));
  EXPECT_EQ(rules_of(differentiate(builder.finish(), {}), ProgramKind::forward), (Names{"linear", "add"}));
}

TEST(FuseSums, AValueIsNotAddedToItself) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto y = linear(builder, builder.boundary_in(8), builder.parameter("w", {8, 8}), "o");
  builder.set_boundary_out(add(builder, y, y, "twice"));
  EXPECT_EQ(rules_of(differentiate(builder.finish(), {}), ProgramKind::forward), (Names{"linear", "add"}));
}

}  // namespace
}  // namespace millrace::runtime
