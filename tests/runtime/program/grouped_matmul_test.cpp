#include "kernels/grouped_matmul.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/packing.hpp"
#include "tests/runtime/program/fixed_offsets.hpp"
#include "tests/runtime/program/rig.hpp"
#include "tests/support/expect_error.hpp"

/// Programs with products of experts. tests/runtime/program/rules_test.cpp compares their gradients with slopes.
namespace millrace::runtime::testing {
namespace {

using kernels::DType;
using kernels::Implementation;

/// An embedding, two products of three experts, of which the second has no rows, and the head.
ForwardProgram program_of(bool input_major, DType compute, bool biased = true) {
  ProgramBuilder builder({compute, 2, 4});
  const auto tokens = builder.batch("tokens");
  const auto x = embedding(builder, tokens, builder.parameter("table", {11, 8}), "embedding");
  const auto offsets = fixed_offsets(builder, tokens, "offsets");
  const auto product = input_major ? grouped_linear_input_major : grouped_linear;
  const auto weight = [&](const char* name, std::int64_t outputs, std::int64_t inputs) {
    return builder.parameter(name, input_major ? kernels::Shape{3, inputs, outputs} : kernels::Shape{3, outputs, inputs});
  };
  const auto bias = biased ? builder.parameter("bias", {3, 70}, in_f32) : ValueId{};
  const auto wide = product(builder, x, weight("wide", 70, 8), offsets, "wide", bias);
  const auto y = product(builder, wide, weight("back", 8, 70), offsets, "back", ValueId{});
  builder.loss_term({.name = "lm_loss"},
                    linear_cross_entropy(builder, y, builder.parameter("head", {11, 8}), builder.batch("targets"), {}, "loss"));
  return builder.finish();
}

const Operation& named(const ProgramSet& set, ProgramKind kind, std::string_view name) {
  const auto found = std::ranges::find(set.program(kind), name, &Operation::name);
  if (found == set.program(kind).end()) throw std::runtime_error("no operation " + std::string(name));
  return *found;
}

TEST(GroupedProducts, ReadTheirWeightsPackedInBothDirections) {
  for (const bool input_major : {false, true}) {
    const ProgramSet set = differentiate(program_of(input_major, DType::bf16), {});
    const auto form = [&](ProgramKind kind, const char* name) {
      const Operation& operation = named(set, kind, name);
      const Value& weight = set.value(operation.inputs.at(1));
      EXPECT_EQ(weight.name, "wide");
      EXPECT_EQ(operation.attributes.epilogue.packed, weight.form != WeightForm::plain) << name;
      return weight.form;
    };
    const WeightForm forward = form(ProgramKind::forward, "wide"), back = form(ProgramKind::input_gradient, "wide.dx");
    if (!kernels::packs_operands()) {
      EXPECT_EQ(forward, WeightForm::plain);
      EXPECT_EQ(back, WeightForm::plain);
      continue;
    }
    EXPECT_EQ(forward, input_major ? WeightForm::packed : WeightForm::packed_turned);
    EXPECT_EQ(back, input_major ? WeightForm::packed_turned : WeightForm::packed);
  }
}

TEST(GroupedProducts, GradientsTransposeTheirForwardAndAddNoBias) {
  for (const bool input_major : {false, true}) {
    const ProgramSet set = differentiate(program_of(input_major, DType::f32), {});
    const auto options = [&](ProgramKind kind, const char* name) {
      return named(set, kind, name).attributes.as<kernels::GroupedMatmulOptions>();
    };
    const auto wide = options(ProgramKind::forward, "wide"), wide_dx = options(ProgramKind::input_gradient, "wide.dx"),
               back_dx = options(ProgramKind::input_gradient, "back.dx");
    EXPECT_EQ(back_dx.transpose_b, input_major);
    EXPECT_EQ(wide.transpose_b, !input_major);
    EXPECT_EQ(wide_dx.transpose_b, input_major);
    EXPECT_TRUE(wide.bias);
    EXPECT_FALSE(wide_dx.bias);
    EXPECT_EQ(named(set, ProgramKind::weight_gradient, "wide.db").rule->name(), "grouped_bias_gradient");
  }
}

// Costs count every row once, whichever expert it belongs to, and a multiply-add as two.
TEST(GroupedProducts, CostsAreThoseOfAllRows) {
  for (const bool input_major : {false, true}) {
    const ProgramSet set = differentiate(program_of(input_major, DType::f32), {});
    const auto flops = [&](ProgramKind kind, const char* name) { return cost(set, named(set, kind, name)).flops; };
    const double product = 2.0 * 8 * 8 * 70;
    EXPECT_EQ(flops(ProgramKind::forward, "wide"), product + 8 * 70);  // with its bias
    EXPECT_EQ(flops(ProgramKind::forward, "back"), product);
    EXPECT_EQ(flops(ProgramKind::input_gradient, "wide.dx"), product);
    EXPECT_EQ(flops(ProgramKind::weight_gradient, "wide.dw"), product);
    EXPECT_EQ(flops(ProgramKind::weight_gradient, "wide.db"), 8 * 70);
    EXPECT_EQ(cost(set, named(set, ProgramKind::weight_gradient, "wide.dw")).bytes, 4.0 * (8 * 8 + 8 * 70 + 4 + 2 * 3 * 8 * 70));
  }
}

TEST(GroupedProducts, ScratchIsThatOfTheKernel) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const ProgramSet set = differentiate(program_of(false, dtype), {});
    const auto bytes = [&](ProgramKind kind, const char* name) {
      const Operation& operation = named(set, kind, name);
      std::vector<ValueType> inputs;
      for (const auto id : operation.inputs) inputs.push_back(set.value(id).type);
      return operation.rule->scratch_bytes(inputs, operation.rule->infer(inputs, operation.attributes), operation.attributes, 3);
    };
    const bool packed = kernels::packs_operands();
    EXPECT_EQ(bytes(ProgramKind::forward, "wide"),
              kernels::grouped_matmul_scratch_bytes({8, 8}, {3, 70, 8}, dtype, dtype,
                                                    {.transpose_b = true, .packed_b = packed, .bias = true}, 3));
    EXPECT_EQ(bytes(ProgramKind::input_gradient, "wide.dx"),
              kernels::grouped_matmul_scratch_bytes({8, 70}, {3, 70, 8}, dtype, dtype, {.packed_b = packed}, 3));
    EXPECT_EQ(bytes(ProgramKind::weight_gradient, "wide.dw"), kernels::grouped_weight_gradient_scratch_bytes({8, 70}, {8, 8}, dtype, 3));
  }
}

TEST(GroupedProducts, AnExpertWithoutRowsGetsNoGradient) {
  for (const bool input_major : {false, true})
    for (const auto implementation : {Implementation::reference, Implementation::fast}) {
      Rig rig(program_of(input_major, DType::f32), SmallNet{}, {BackwardMode::split, "none", implementation});
      run(rig);
      for (const char* name : {"wide", "back", "bias"}) {
        const auto gradients = rig.accumulators().at({name, 0});
        const std::size_t each = gradients.size() / 3;
        for (std::size_t e = 0; e < 3; ++e)
          EXPECT_EQ(std::any_of(gradients.begin() + static_cast<std::ptrdiff_t>(e * each),
                                gradients.begin() + static_cast<std::ptrdiff_t>((e + 1) * each), [](float x) { return x != 0; }),
                    e != 1)
              << name << " " << e;
      }
    }
}

// The fast products read packed weights where the processor has them, the reference reads the same memory element by element.
TEST(GroupedProducts, FastProgramsAgreeWithTheReference) {
  for (const bool input_major : {false, true})
    for (const bool biased : {false, true}) {
      Rig expected(program_of(input_major, DType::f32, biased), SmallNet{}, {BackwardMode::split, "none", Implementation::reference});
      run(expected);
      for (const int threads : {1, 2, 3}) {
        Rig found(program_of(input_major, DType::f32, biased), SmallNet{}, {BackwardMode::fused, "full", Implementation::fast, threads});
        run(found);
        // Sums of at most 70 products, four in sequence, in fp32: 6·√70 roundoffs each, of terms that are below 1.
        EXPECT_NEAR(found.loss(), expected.loss(), 2e-4);
        const auto gradients = expected.accumulators();
        for (const auto& [key, values] : found.accumulators())
          for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], gradients.at(key)[i], 2e-5) << key.first << " " << i;
      }
    }
}

TEST(GroupedProducts, WrongShapesNameTheOperationAndItsOperands) {
  ProgramBuilder builder({DType::f32, 2, 4});
  const auto x = builder.boundary_in(16), offsets = fixed_offsets(builder, builder.batch("tokens"), "offsets");
  builder.enter(3, "layers.3");
  const auto w = builder.parameter("w", {3, 5, 16});
  const auto expect_refused = [](auto&& call, const std::vector<std::string>& words) {
    tests::expect_error(call, ExitCode::internal, words);
  };
  expect_refused(
      [&] {
        (void)grouped_linear(builder, x, builder.parameter("long", {3, 5, 17}), offsets, "up");
      },
      {"layers.3.up", "grouped_linear(", "f32 [8, 16]", "f32 [3, 5, 17]", "weight [E, N, K]"});
  expect_refused([&] { (void)grouped_linear_input_major(builder, x, w, offsets, "up"); },
                 {"grouped_linear_input_major(", "f32 [3, 5, 16]", "weight [E, K, N]"});
  expect_refused(
      [&] {
        (void)grouped_linear(builder, x, builder.parameter("four", {4, 5, 16}), offsets, "up");
      },
      {"f32 [4, 5, 16]", "i32 [4]", "offsets i32 [E + 1]"});
  expect_refused([&] { (void)grouped_linear(builder, x, builder.parameter("flat", {15, 16}), offsets, "up"); }, {"f32 [15, 16]"});
  expect_refused([&] { (void)grouped_linear(builder, x, w, builder.parameter("o", {4}, in_f32), "up"); }, {"f32 [4]"});
  expect_refused(
      [&] {
        (void)grouped_linear(builder, x, w, offsets, "up", builder.parameter("wide", {3, 16}, in_f32));
      },
      {"f32 [3, 16]", "a bias f32 [E, N]"});
  EXPECT_NO_THROW((void)grouped_linear(builder, x, w, offsets, "up", builder.parameter("bias", {3, 5}, in_f32)));
}

}  // namespace
}  // namespace millrace::runtime::testing
