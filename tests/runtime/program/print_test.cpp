#include "runtime/program/print.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/runtime/program/rig.hpp"

namespace millrace::runtime::testing {
namespace {

TEST(Print, EveryOperationHasItsLine) {
  const Rig rig(SmallNet{}, {BackwardMode::fused, "minimal"});
  for (const auto kind : {ProgramKind::forward, ProgramKind::backward}) {
    const auto text = print(rig.set, kind, rig.plan);
    for (const auto& operation : rig.set.program(kind))
      EXPECT_NE(text.find(" " + operation.name + " "), std::string::npos) << operation.name;
    std::size_t outputs = 0;
    for (const auto& operation : rig.set.program(kind)) outputs += operation.outputs.size();
    // a header of two lines, totals of twelve, the last of them the slot of the loss
    EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), outputs + 14);
  }
  const auto text = print(rig.set, ProgramKind::forward, rig.plan);
  for (const char* words : {"f32 [8, 12]", "query_proj", "stash_input+", "epsilon=1e-05", "head_dim=4", "workspace"})
    EXPECT_NE(text.find(words), std::string::npos) << words;
}

TEST(Print, NumbersStandRightAlignedAndWordsLeft) {
  const Rig rig(SmallNet{}, {BackwardMode::fused});
  std::istringstream text(print(rig.set, ProgramKind::forward, rig.plan));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  const std::string& head = lines.at(1);
  const auto end_of = [&](const char* word) { return head.find(word) + std::string(word).size(); };
  const auto operations = rig.set.program(ProgramKind::forward).size();
  ASSERT_GT(operations, 10U) << "positions of one digit and of two";
  std::size_t row = 1;
  for (std::size_t i = 0; i < operations; ++i) {
    while (!lines.at(++row).substr(0, end_of("#")).ends_with(std::to_string(i))) ASSERT_LT(row, lines.size());
    const std::string& line = lines[row];
    EXPECT_NE(line.at(head.find("operation")), ' ') << line;
    EXPECT_EQ(line.at(head.find("operation") - 1), ' ') << line;
    for (const char* number : {" flop", " bytes"}) {
      EXPECT_NE(line.at(end_of(number) - 1), ' ') << number << ": " << line;
      EXPECT_EQ(line.at(end_of(number)), ' ') << number << ": " << line;
    }
  }
}

TEST(Print, WhatOnlyCopiesHasALineToo) {
  const Rig rig(SmallNet{}, {BackwardMode::fused, "none,offload:context"});
  const auto forward = print(rig.set, ProgramKind::forward, rig.plan), backward = print(rig.set, ProgramKind::backward, rig.plan);
  for (const char* words : {"layers.1.attention.offload ", "layers.1.attention.offload_end ", "offload+"})
    EXPECT_NE(forward.find(words), std::string::npos) << words << "\n" << forward;
  for (const char* words : {"layers.0.attention.fetch ", "layers.0.attention.fetch_end "})
    EXPECT_NE(backward.find(words), std::string::npos) << words << "\n" << backward;
  EXPECT_NE(forward.find("offload" + std::string(14, ' ')), std::string::npos) << "no line of the region\n" << forward;
}

TEST(Print, NumbersHaveThreeDigitsAndAPrefix) {
  const auto total_of = [](std::int64_t tokens, std::int64_t width) {
    ProgramBuilder builder({kernels::DType::f32, 1, tokens});
    builder.set_boundary_out(scale(builder, builder.boundary_in(width), 0.5, "half"));
    const auto set = differentiate(builder.finish(), {});
    MemoryPlan plan;
    plan.placements.resize(set.values.size());
    const auto text = print(set, ProgramKind::forward, plan);
    return text.substr(text.find("total "), text.find("flop,") - text.find("total "));
  };
  EXPECT_EQ(total_of(9, 111), "total 999 ");
  EXPECT_EQ(total_of(10, 100), "total 1.00 k ");
  EXPECT_EQ(total_of(125, 100), "total 12.5 k ");
  EXPECT_EQ(total_of(10'000'000, 100'000'000), "total 1.00 P ");
}

TEST(Cost, FlopsOfTheProgramsAddUp) {
  SmallNet net;
  net.sequence = 8;
  const auto set = differentiate(build(net), {});
  for (const auto kind : {ProgramKind::forward, ProgramKind::input_gradient, ProgramKind::weight_gradient, ProgramKind::backward}) {
    Cost sum;
    for (const auto& operation : set.program(kind)) {
      const auto one = cost(set, operation);
      sum.flops += one.flops;
      sum.bytes += one.bytes;
      EXPECT_GT(one.bytes, 0) << operation.name;
    }
    EXPECT_EQ(sum.flops, set.cost(kind).flops);
    EXPECT_EQ(sum.bytes, set.cost(kind).bytes);
  }
}

double flops_of(const ProgramSet& set, ProgramKind kind, std::string_view name) {
  for (const auto& operation : set.program(kind))
    if (operation.name == name) return cost(set, operation).flops;
  ADD_FAILURE() << "no operation " << name;
  return 0;
}

TEST(Cost, CountsWhatTheKernelsDo) {
  const SmallNet net;  // T = 8, D = 8, F = 12, V = 11, H·D = 8, S = 4
  const auto set = differentiate(build(net), {});
  const double product = 2.0 * 8 * 8 * 12;
  EXPECT_EQ(flops_of(set, ProgramKind::forward, "layers.0.gate"), product);
  EXPECT_EQ(flops_of(set, ProgramKind::input_gradient, "layers.0.up.dx"), product);
  EXPECT_EQ(flops_of(set, ProgramKind::input_gradient, "layers.0.gate.dx"), product + 8 * 8);  // includes the addition of up's gradient
  EXPECT_EQ(flops_of(set, ProgramKind::weight_gradient, "layers.0.gate.dw"), product);
  const double head = 2.0 * 8 * 8 * 11;
  EXPECT_EQ(flops_of(set, ProgramKind::evaluate, "loss"), head);
  EXPECT_EQ(flops_of(set, ProgramKind::input_gradient, "loss.dx"), 2 * head);   // includes the loss
  EXPECT_EQ(flops_of(set, ProgramKind::weight_gradient, "loss.dw"), 2 * head);  // recomputes the logits
  EXPECT_EQ(flops_of(set, ProgramKind::backward, "loss.dx+dw"), 3 * head);      // so few entries fit in one tile
  const double pairs = 2.0 * 2 * (4 * 5 / 2);                                   // rows, heads, causal pairs
  EXPECT_EQ(flops_of(set, ProgramKind::forward, "layers.0.attention"), 2 * 2 * 4 * pairs);
  EXPECT_EQ(flops_of(set, ProgramKind::input_gradient, "layers.0.attention.dx"), 5 * 2 * 4 * pairs);
  EXPECT_EQ(flops_of(set, ProgramKind::weight_gradient, "embedding.dw"), 8.0 * 8);
  EXPECT_EQ(flops_of(set, ProgramKind::weight_gradient, "layers.0.norm_1.dw"), 3.0 * 8 * 8);
}

TEST(Cost, CountsBothWidthsOfAHead) {
  ProgramBuilder builder({kernels::DType::f32, 2, 4});
  const auto port = [&](const char* name, std::int64_t columns) { return builder.boundary_in(name, {kernels::DType::f32, {8, columns}}); };
  const auto k = join_heads(builder, {port("own", 2 * 3), port("shared", 2)}, {.heads = 2, .shared = 1}, "k");
  builder.set_boundary_out(
      attention(builder, port("q", 2 * 5), k, port("v", 2 * 3), builder.batch("segments"), {.head_dim = 5, .v_head_dim = 3}, "attention"));
  const auto set = differentiate(builder.finish(), {});
  const double pairs = 2.0 * 2 * (4 * 5 / 2);  // rows, heads, causal pairs
  EXPECT_EQ(flops_of(set, ProgramKind::forward, "attention"), 2 * (5 + 3) * pairs);
  EXPECT_EQ(flops_of(set, ProgramKind::input_gradient, "attention.dx"), 2 * (3 * 5 + 2 * 3) * pairs);
  EXPECT_EQ(flops_of(set, ProgramKind::forward, "k"), 0);
  EXPECT_EQ(flops_of(set, ProgramKind::input_gradient, "k.dx"), 8 * 2);  // one addition for each shared feature
}

}  // namespace
}  // namespace millrace::runtime::testing
