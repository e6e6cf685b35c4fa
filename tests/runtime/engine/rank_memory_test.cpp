#include "runtime/engine/rank_memory.hpp"

#include <gtest/gtest.h>

#include <set>

#include "kernels/base/buffer.hpp"
#include "kernels/packing.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

ParameterLayout layout(kernels::DType compute) {
  return ParameterLayout(
      {{"norm", {10}, StageId{1}, 0, 2, false}, {"table", {16, 8}, StageId{0}, 0, 0, true}, {"table", {16, 8}, StageId{1}, 1, 0, true}},
      compute);
}

TEST(ParameterLayout, HoldsATiedTableOnceWithTwoAccumulators) {
  const auto parameters = layout(kernels::DType::bf16);
  ASSERT_EQ(parameters.tensors().size(), 2U);
  const auto& table = parameters.tensors()[0];  // model order, not the order of declaration
  EXPECT_EQ(table.name, "table");
  ASSERT_EQ(table.uses.size(), 2U);
  EXPECT_NE(table.uses[0].accumulator, table.uses[1].accumulator);
  EXPECT_TRUE(table.copied);
  EXPECT_FALSE(parameters.at("norm").copied);
  EXPECT_EQ(parameters.master_bytes(), 512U + 128U);
  EXPECT_EQ(parameters.copy_bytes(), 256U);
  EXPECT_EQ(parameters.accumulator_bytes(), 512U + 512U + 128U);
  EXPECT_EQ(layout(kernels::DType::f32).copy_bytes(), 0U);
}

TEST(ParameterLayout, CopiesThatAreOnlyPackedTakeTurns) {
  const std::vector<StageParameter> parameters{{"a", {16, 8}, StageId{0}, 0, 0, true, false, false, {true, true}},
                                               {"b", {8, 8}, StageId{0}, 0, 1, true, false, true, {}},
                                               {"c", {4, 8}, StageId{0}, 0, 2, true, false, false, {true, false}}};
  const ParameterLayout bf16(parameters, kernels::DType::bf16);
  const auto &a = bf16.at("a"), &b = bf16.at("b"), &c = bf16.at("c");
  EXPECT_TRUE(a.copied && b.copied && c.copied);
  EXPECT_EQ(a.copy, c.copy);
  EXPECT_NE(a.copy, b.copy);
  const std::set<std::size_t> places{a.copy, b.copy, a.packed_copy[0], a.packed_copy[1], c.packed_copy[0]};
  EXPECT_EQ(places.size(), 5U);
  // The place is as large as the largest of them, and lies behind everything.
  EXPECT_EQ(bf16.copy_bytes(), a.copy + 16U * 8U * 2U);
  const ParameterLayout fp32(parameters, kernels::DType::f32);
  EXPECT_FALSE(fp32.at("a").copied);
  EXPECT_EQ(fp32.copy_bytes(), fp32.at("c").packed_copy[0] + kernels::align_up(kernels::packed_bytes(4, 8, kernels::DType::f32)));
}

TEST(ParameterLayout, RefusesOneUseTwice) {
  tests::expect_error(
      [] {
        ParameterLayout({{"a", {4}, StageId{0}, 0, 0, true}, {"a", {4}, StageId{1}, 0, 0, true}}, kernels::DType::f32);
      },
      ExitCode::internal, {"use 0 of a", "twice"});
  tests::expect_error(
      [] {
        ParameterLayout({{"a", {4}, StageId{0}, 0, 0, true}, {"a", {5}, StageId{1}, 1, 0, true}}, kernels::DType::f32);
      },
      ExitCode::internal, {"[4]", "[5]"});
  tests::expect_error([] { (void)layout(kernels::DType::f32).at("b"); }, ExitCode::internal, {"\"b\""});
}

RankDemand demand() {
  RankDemand demand;
  demand.accumulators = 2;
  demand.staging = true;
  demand.batches = 3;
  demand.stages.resize(2);
  for (int i = 0; i < 2; ++i) {
    auto& stage = demand.stages[static_cast<std::size_t>(i)];
    stage.stage = StageId{i};
    stage.stash_input = 1000;
    stage.token_in = i == 0 ? 0 : 300;
    stage.workspace = i == 0 ? 5000 : 700;
    stage.batch = 512;
    stage.slots.stash_input = 4 - i;
    stage.slots.token_in = 2;
    stage.slots.results = i == 1 ? 8 : 0;
  }
  return demand;
}

TEST(RankMemory, SectionsFollowEachOtherWithoutOverlap) {
  const RankMemoryPlan plan(layout(kernels::DType::bf16), demand());
  std::size_t end = 0;
  for (const auto& section : plan.sections()) {
    EXPECT_EQ(section.offset, end) << to_string(section.kind);
    EXPECT_EQ(section.slot_bytes % kernels::kAlignment, 0U);
    end += section.bytes();
  }
  EXPECT_EQ(plan.total_bytes(), end);
  EXPECT_EQ(plan.bytes(MemoryKind::accumulator), 2 * 1152U);
  EXPECT_EQ(plan.bytes(MemoryKind::staging), 3 * 640U);
  EXPECT_EQ(plan.bytes(MemoryKind::stash_input), 7 * 1024U);
  EXPECT_EQ(plan.bytes(MemoryKind::workspace), 5120U) << "shared: the largest, not the sum";
  EXPECT_EQ(plan.bytes(MemoryKind::batch), 3 * 512U);
  EXPECT_EQ(plan.find(MemoryKind::token_in, StageId{0}), nullptr);
  EXPECT_NE(plan.print().find(std::to_string(plan.total_bytes())), std::string::npos);
  EXPECT_NE(plan.print().find("stash_input"), std::string::npos);
}

TEST(RankMemory, EvaluationNeedsNoMoments) {
  auto forward = demand();
  forward.training = false;
  const RankMemoryPlan plan(layout(kernels::DType::f32), forward);
  EXPECT_EQ(plan.find(MemoryKind::first_moment), nullptr);
  EXPECT_EQ(plan.find(MemoryKind::accumulator), nullptr);
}

TEST(RankMemory, GivesSlotsAndRefusesOthers) {
  const RankMemory memory(RankMemoryPlan(layout(kernels::DType::f32), demand()));
  EXPECT_EQ(memory.slot(MemoryKind::stash_input, StageId{0}, 3) - memory.slot(MemoryKind::stash_input, StageId{0}, 0), 3 * 1024);
  tests::expect_error([&] { (void)memory.slot(MemoryKind::stash_input, StageId{0}, 4); }, ExitCode::internal, {"slot 4", "stash_input"});
  tests::expect_error([&] { (void)memory.slot(MemoryKind::logits, StageId{1}); }, ExitCode::internal, {"logits"});
  EXPECT_EQ(memory.slot_or_null(MemoryKind::token_in, StageId{0}), nullptr);
}

}  // namespace
}  // namespace millrace::runtime
