#include "runtime/passes/choose_epilogues.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/packing.hpp"
#include "runtime/passes/differentiate.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::runtime {
namespace {

using kernels::DType;
using Names = std::vector<std::string>;

Names kinds_of(const ProgramSet& set, ProgramKind kind) {
  Names names;
  for (const auto& operation : set.program(kind)) names.push_back(kind_of(operation));
  return names;
}

/// x · wᵀ + b, and the same through an activation.
ForwardProgram biased_product(DType compute, bool read_twice = false) {
  ProgramBuilder builder({compute, 2, 4});
  const auto x = builder.boundary_in(8);
  const auto product = linear(builder, x, builder.parameter("w", {8, 8}), "o");
  builder.label(product, "out_proj");
  const auto y = add_bias(builder, product, builder.parameter("b", {8}, in_f32), "o_bias");
  const auto active = activate(builder, kernels::Activation::gelu, y, "gelu");
  builder.set_boundary_out(read_twice ? add(builder, active, product, "sum") : active);
  return builder.finish();
}

TEST(ChooseEpilogues, InBf16TheProductAddsItsBias) {
  const auto set = differentiate(biased_product(DType::bf16), {});
  EXPECT_EQ(kinds_of(set, ProgramKind::forward), (Names{"linear + bias", "gelu"}));
  const auto& product = set.program(ProgramKind::forward)[0];
  EXPECT_EQ(set.value(product.inputs.at(2)).name, "b");
  EXPECT_EQ(set.value(product.outputs.at(0)).labels, (Names{"out_proj"}));
  EXPECT_EQ(kinds_of(set, ProgramKind::weight_gradient), (Names{"bias_weight_gradient", "linear_weight_gradient"}));
}

/// Nothing is rounded between the two, and the bits equal those without fusion.
TEST(ChooseEpilogues, InFp32OnACpuTheBiasIsAddedByItself) {
  const auto set = differentiate(biased_product(DType::f32), {});
  EXPECT_EQ(kinds_of(set, ProgramKind::forward), (Names{"linear", "bias", "gelu"}));
}

TEST(ChooseEpilogues, AProductThatSomebodyElseReadsStays) {
  const auto set = differentiate(biased_product(DType::bf16, true), {});
  EXPECT_EQ(kinds_of(set, ProgramKind::forward), (Names{"linear", "bias", "gelu", "add"}));
}

/// Recomputation runs the same operation, so it gives the same bits.
TEST(ChooseEpilogues, TheRecomputedProductAddsItsBiasToo) {
  ProgramBuilder builder({DType::bf16, 2, 4});
  const auto x = builder.boundary_in(8);
  builder.enter(0, "layers.0");
  const auto y = add_bias(builder, linear(builder, x, builder.parameter("w", {8, 8}), "o"), builder.parameter("b", {8}, in_f32), "o_bias");
  builder.set_boundary_out(activate(builder, kernels::Activation::gelu, y, "gelu"));
  const auto set = differentiate(builder.finish(), RematerializationPolicy::parse("full", {}));
  EXPECT_EQ(kinds_of(set, ProgramKind::forward), (Names{"linear + bias", "gelu"}));
  EXPECT_EQ(kinds_of(set, ProgramKind::input_gradient).at(0), "linear + bias");
}

TEST(ChooseEpilogues, AResidualJoinsItsProductWithTheProductsLabel) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(8);
  builder.enter(0, "layers.0");
  const auto y = linear(builder, x, builder.parameter("w", {8, 8}), "o");
  builder.label(y, "out_proj");
  builder.set_boundary_out(add(builder, x, y, "residual"));
  const auto set = differentiate(builder.finish(), {});
  EXPECT_EQ(kinds_of(set, ProgramKind::forward), (Names{"linear + addend"}));
  const auto& product = set.program(ProgramKind::forward)[0];
  EXPECT_EQ(product.inputs[2], set.inputs.at(0).value);
  EXPECT_EQ(set.value(product.outputs[0]).labels, (Names{"out_proj"}));
  // Backward: the residual's gradient is that of the result, and the product adds dx to it.
  EXPECT_EQ(kinds_of(set, ProgramKind::input_gradient), (Names{"linear_input_gradient + addend"}));
  EXPECT_EQ(set.program(ProgramKind::input_gradient)[0].inputs[2], set.outputs.at(0).gradient);
}

TEST(ChooseEpilogues, WhatSomebodyElseReadsStays) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(8);
  const auto y = linear(builder, x, builder.parameter("w", {8, 8}), "o");
  builder.set_boundary_out(add(builder, swiglu(builder, y, x, "swiglu"), y, "sum"));
  EXPECT_EQ(kinds_of(differentiate(builder.finish(), {}), ProgramKind::forward), (Names{"linear", "swiglu", "add"}));
}

TEST(ChooseEpilogues, WhatLeavesStays) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(8);
  const auto y = linear(builder, x, builder.parameter("w", {8, 8}), "o");
  (void)add(builder, x, y, "sum");
  builder.set_boundary_out(y);
  EXPECT_EQ(kinds_of(differentiate(builder.finish(), {}), ProgramKind::forward), (Names{"linear", "add"}));
}

// The gradient of the first sum is that of both its operands: the input and, with another term added, the embedding.
TEST(ChooseEpilogues, AGradientThatLeavesStays) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(8), e = embedding(builder, builder.batch("tokens"), builder.parameter("table", {11, 8}), "e");
  const auto left = linear(builder, add(builder, x, e, "s"), builder.parameter("left", {8, 8}), "left");
  builder.set_boundary_out(add(builder, left, linear(builder, e, builder.parameter("right", {8, 8}), "right"), "out"));
  const auto set = differentiate(builder.finish(), {});
  int writers = 0;
  for (const auto& operation : set.program(ProgramKind::input_gradient))
    for (const auto output : operation.outputs)
      writers += output == set.inputs.at(0).gradient || set.value(output).name == "left.dx" ? 1 : 0;
  EXPECT_GE(writers, 1);
  for (const auto& operation : set.program(ProgramKind::input_gradient))
    for (const auto input : operation.inputs) {
      if (set.value(input).role != Role::intermediate) continue;
      bool written = false;
      for (const auto kind : {ProgramKind::forward, ProgramKind::input_gradient})
        for (const auto& other : set.program(kind)) written = written || std::ranges::find(other.outputs, input) != other.outputs.end();
      EXPECT_TRUE(written) << operation.name << " reads '" << set.value(input).name << "', which no operation writes";
    }
}

TEST(ChooseEpilogues, NothingIsFusedAcrossALayer) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(8);
  builder.enter(0, "layers.0");
  const auto y = linear(builder, x, builder.parameter("w", {8, 8}), "o");
  builder.enter(1, "layers.1");
  builder.set_boundary_out(add(builder, x, y, "sum"));
  EXPECT_EQ(kinds_of(differentiate(builder.finish(), {}), ProgramKind::forward), (Names{"linear", "add"}));
}

TEST(ChooseEpilogues, AValueIsNotAddedToItself) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto y = linear(builder, builder.boundary_in(8), builder.parameter("w", {8, 8}), "o");
  builder.set_boundary_out(add(builder, y, y, "twice"));
  EXPECT_EQ(kinds_of(differentiate(builder.finish(), {}), ProgramKind::forward), (Names{"linear", "add"}));
}

/// Epilogue, operand and the value's form agree: exactly the kernels that read a packed weight have it marked as packed.
TEST(ChooseEpilogues, AProductIsToldThatItsWeightLiesPacked) {
  const auto set = differentiate(biased_product(DType::bf16), {});
  for (const auto kind : all_program_kinds)
    for (const auto& operation : set.program(kind)) {
      const auto weight = operation.rule->epilogues().packed;
      if (!weight) {
        EXPECT_FALSE(operation.attributes.epilogue.packed) << operation.name;
        continue;
      }
      const auto form = set.value(operation.inputs.at(weight->operand)).form;
      EXPECT_EQ(operation.attributes.epilogue.packed, kernels::packs_operands()) << operation.name;
      EXPECT_EQ(form, kernels::packs_operands() ? weight->form : WeightForm::plain) << operation.name;
    }
}

}  // namespace
}  // namespace millrace::runtime
