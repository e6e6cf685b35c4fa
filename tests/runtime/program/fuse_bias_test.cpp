#include "runtime/passes/fuse_bias.hpp"

#include <gtest/gtest.h>

#include "runtime/passes/differentiate.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::runtime {
namespace {

using kernels::DType;
using Names = std::vector<std::string>;

Names rules_of(const ProgramSet& set, ProgramKind kind) {
  Names names;
  for (const auto& operation : set.program(kind)) names.emplace_back(operation.rule->name());
  return names;
}

/// x · wᵀ + b, once more through an activation.
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

TEST(FuseBias, InBf16TheProductAddsItsBias) {
  const auto set = differentiate(biased_product(DType::bf16), {});
  EXPECT_EQ(rules_of(set, ProgramKind::forward), (Names{"linear_bias", "gelu"}));
  const auto& product = set.program(ProgramKind::forward)[0];
  EXPECT_EQ(set.value(product.inputs.at(2)).name, "b");
  EXPECT_EQ(set.value(product.outputs.at(0)).labels, (Names{"out_proj"}));
  EXPECT_EQ(rules_of(set, ProgramKind::weight_gradient), (Names{"bias_weight_gradient", "linear_weight_gradient"}));
}

/// Nothing is rounded between the two, and the bits are those of every run before.
TEST(FuseBias, InFp32OnACpuTheBiasIsAddedByItself) {
  const auto set = differentiate(biased_product(DType::f32), {});
  EXPECT_EQ(rules_of(set, ProgramKind::forward), (Names{"linear", "bias", "gelu"}));
}

TEST(FuseBias, AProductThatSomebodyElseReadsStays) {
  const auto set = differentiate(biased_product(DType::bf16, true), {});
  EXPECT_EQ(rules_of(set, ProgramKind::forward), (Names{"linear", "bias", "gelu", "add"}));
}

/// What is recomputed is the same operation, so it has the same bits.
TEST(FuseBias, TheRecomputedProductAddsItsBiasToo) {
  ProgramBuilder builder({DType::bf16, 2, 4});
  const auto x = builder.boundary_in(8);
  builder.enter(0, "layers.0");
  const auto y = add_bias(builder, linear(builder, x, builder.parameter("w", {8, 8}), "o"), builder.parameter("b", {8}, in_f32), "o_bias");
  builder.set_boundary_out(activate(builder, kernels::Activation::gelu, y, "gelu"));
  const auto set = differentiate(builder.finish(), RematerializationPolicy::parse("full", {}));
  EXPECT_EQ(rules_of(set, ProgramKind::forward), (Names{"linear_bias", "gelu"}));
  EXPECT_EQ(rules_of(set, ProgramKind::input_gradient).at(0), "linear_bias");
}

}  // namespace
}  // namespace millrace::runtime
