#include "runtime/engine/rank_memory.hpp"

#include <gtest/gtest.h>

#include <set>

#include "kernels/base/buffer.hpp"
#include "kernels/base/device_context.hpp"
#include "kernels/packing.hpp"
#include "tests/runtime/engine/made_up_device.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

ParameterLayout layout(kernels::DType compute) {
  return ParameterLayout({{"norm", {10}, StageId{1}, 0, 2, false, false, true, {}, true},
                          {"table", {16, 8}, StageId{0}, 0, 0, true},
                          {"table", {16, 8}, StageId{1}, 1, 0, true}},
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

/// The layer says in what a parameter computes, whatever the number of its axes.
TEST(ParameterLayout, OnlyWhatComputesInBf16IsCopied) {
  const std::vector<StageParameter> parameters{{"router", {16, 8}, StageId{0}, 0, 0, true, false, true, {}, true},
                                               {"gains", {8}, StageId{0}, 0, 1, false}};
  const ParameterLayout bf16(parameters, kernels::DType::bf16);
  EXPECT_FALSE(bf16.at("router").copied);
  EXPECT_TRUE(bf16.at("gains").copied);
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
  // The area is as large as the largest of them, and comes after everything else.
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

// What a stage's programs declare: each weight once, in their order, whether they read it packed as well or not.
TEST(ParameterLayout, TakesTheParametersOfPrograms) {
  ProgramSet programs;
  const auto add = [&](const char* name, kernels::Shape shape, Role role, int use, WeightForm form) {
    Value value;
    value.type.shape = shape;
    value.role = role;
    value.name = name;
    value.use = use;
    value.form = form;
    programs.values.push_back(value);
  };
  add("x", {4, 8}, Role::boundary_in, 0, WeightForm::plain);
  add("norm", {8}, Role::parameter, 0, WeightForm::plain);
  add("matrix", {16, 8}, Role::parameter, 0, WeightForm::plain);
  add("matrix", {16, 8}, Role::parameter, 0, WeightForm::packed);
  add("matrix", {16, 8}, Role::parameter, 0, WeightForm::packed_turned);
  add("matrix", {16, 8}, Role::accumulator, 0, WeightForm::plain);
  add("table", {11, 8}, Role::parameter, 1, WeightForm::plain);
  const auto list = parameters_of(programs, StageId{3});
  ASSERT_EQ(list.size(), 3U);
  const std::vector<std::string> names{"norm", "matrix", "table"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(list[i].name, names[i]);
    EXPECT_EQ(list[i].stage, StageId{3});
    EXPECT_EQ(list[i].order, static_cast<int>(i));
    EXPECT_EQ(list[i].use, i == 2 ? 1 : 0);
    EXPECT_EQ(list[i].decays, i > 0) << "matrices decay";
    EXPECT_FALSE(list[i].copy);
    EXPECT_TRUE(list[i].plain);
    EXPECT_FALSE(list[i].packed[0] || list[i].packed[1]);
  }
  EXPECT_EQ(list[1].shape, (kernels::Shape{16, 8}));
}

TEST(ParameterLayout, PlacesAreThoseOfItsTensors) {
  const std::vector<StageParameter> parameters{{"a", {16, 8}, StageId{0}, 0, 0, true, false, true, {true, true}},
                                               {"a", {16, 8}, StageId{1}, 1, 0, true, false, true, {}},
                                               {"norm", {8}, StageId{1}, 0, 1, false, false, true, {}, true}};
  const ParameterLayout bf16(parameters, kernels::DType::bf16);
  const auto places = bf16.places();
  const auto value = [](const char* name, kernels::DType dtype, WeightForm form, int use = 0) {
    Value made;
    made.type.dtype = dtype;
    made.name = name;
    made.form = form;
    made.use = use;
    return made;
  };
  const auto& a = bf16.at("a");
  const auto expect_place = [](const Place& found, Region region, std::size_t offset) {
    EXPECT_EQ(found.region, region);
    EXPECT_EQ(found.offset, offset);
  };
  expect_place(places.parameter(value("a", kernels::DType::bf16, WeightForm::plain)), Region::copy, a.copy);
  expect_place(places.parameter(value("a", kernels::DType::bf16, WeightForm::packed)), Region::copy, a.packed_copy[0]);
  expect_place(places.parameter(value("a", kernels::DType::bf16, WeightForm::packed_turned)), Region::copy, a.packed_copy[1]);
  expect_place(places.parameter(value("norm", kernels::DType::f32, WeightForm::plain)), Region::master, bf16.at("norm").offset);
  ASSERT_EQ(a.uses.size(), 2U);
  for (const int use : {0, 1})
    expect_place(places.accumulator(value("a", kernels::DType::f32, WeightForm::plain, use)), Region::accumulator,
                 a.uses[static_cast<std::size_t>(use)].accumulator);
  EXPECT_EQ(std::set<std::size_t>({a.copy, a.packed_copy[0], a.packed_copy[1]}).size(), 3U);
  tests::expect_error([&] { (void)places.accumulator(value("norm", kernels::DType::f32, WeightForm::plain, 1)); }, ExitCode::internal,
                      {"no accumulator for use 1 of norm"});
}

// A tied table is owned by the rank of the embedding; among replicas the first one is the owner.
TEST(ParameterLayout, AnOwnerHasTheFirstUseAndNoCopy) {
  const auto owns = [](int use, bool copy) {
    return ParameterLayout({{"a", {4}, StageId{0}, use, 0, true, copy}}, kernels::DType::f32).at("a").is_owner();
  };
  EXPECT_TRUE(owns(0, false));
  EXPECT_FALSE(owns(1, false));
  EXPECT_FALSE(owns(0, true));
  EXPECT_FALSE(owns(1, true));
  const ParameterLayout both({{"a", {4}, StageId{0}, 1, 0, true}, {"a", {4}, StageId{1}, 0, 0, true}}, kernels::DType::f32);
  EXPECT_TRUE(both.at("a").is_owner());
  EXPECT_EQ(both.at("a").uses[0].use, 0) << "ascending";
  EXPECT_TRUE(both.at("a").has_use(1));
  EXPECT_FALSE(both.at("a").has_use(2));
}

RankMemoryRequest demand() {
  RankMemoryRequest demand;
  demand.accumulators = 2;
  demand.staging = true;
  demand.states = 2;
  demand.batches = 3;
  demand.stages.resize(2);
  for (int i = 0; i < 2; ++i) {
    auto& stage = demand.stages[static_cast<std::size_t>(i)];
    stage.stage = StageId{i};
    stage.stash_input = 1000;
    stage.boundary_in = i == 0 ? 0 : 300;
    stage.workspace = i == 0 ? 5000 : 700;
    stage.batch = 512;
    stage.slots.stash_input = 4 - i;
    stage.slots.boundary_in = 2;
    stage.slots.results = i == 1 ? 8 : 0;
    stage.result = i == 1 ? 16 : 0;
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
  EXPECT_EQ(plan.bytes(MemoryKind::state), 2 * 640U);
  EXPECT_EQ(plan.bytes(MemoryKind::staging), 3 * 640U) << "parameters and both states";
  EXPECT_EQ(plan.bytes(MemoryKind::stash_input), 7 * 1024U);
  EXPECT_EQ(plan.bytes(MemoryKind::workspace), 5120U) << "shared: the largest, not the sum";
  EXPECT_EQ(plan.bytes(MemoryKind::batch), 3 * 512U);
  EXPECT_EQ(plan.find(MemoryKind::boundary_in, StageId{0}), nullptr);
  EXPECT_NE(plan.print().find(std::to_string(plan.total_bytes())), std::string::npos);
  EXPECT_NE(plan.print().find("stash_input"), std::string::npos);
}

RankMemoryRequest device_demand() {
  auto on_device = demand();
  on_device.on_device = true;
  on_device.stages[0].offload = 700;
  on_device.stages[1].logits = 4000;
  on_device.rings = {{0, 2000, false}, {1, 3000, true}};
  return on_device;
}

TEST(RankMemory, OfAGpuHasTwoArenas) {
  using enum MemoryKind;
  const RankMemoryPlan plan(layout(kernels::DType::bf16), device_demand());
  std::size_t device = 0, pinned = 0;
  const std::set<MemoryKind> of_the_host{staging, batch_copy, scalar_copy, square, result_copy, offload, logits_copy, ring_copy};
  std::set<MemoryKind> found;
  for (const auto& section : plan.sections()) {
    const bool there = of_the_host.contains(section.kind);
    EXPECT_EQ(section.space, there ? kernels::MemorySpace::pinned_host : kernels::MemorySpace::device) << to_string(section.kind);
    auto& end = there ? pinned : device;
    EXPECT_EQ(section.offset, end) << to_string(section.kind);
    end += section.bytes();
    if (there) found.insert(section.kind);
  }
  EXPECT_EQ(found, of_the_host);
  EXPECT_EQ(plan.total_bytes(), device);
  EXPECT_EQ(plan.pinned_bytes(), pinned);
  EXPECT_EQ(plan.bytes(offload), 4 * 768U) << "a slot a microbatch in flight";
  EXPECT_EQ(plan.bytes(batch_copy), plan.bytes(batch));
  ASSERT_NE(plan.find_ring(0), nullptr);
  EXPECT_EQ(plan.find_ring(0, ring_copy), nullptr);
  ASSERT_NE(plan.find_ring(1, ring_copy), nullptr);
  EXPECT_EQ(plan.find_ring(1, ring_copy)->bytes(), plan.find_ring(1)->bytes());
  const auto text = plan.print();
  for (const std::string words : {"host, pinned", "ring_copy", "logits_copy", "batch_copy"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  EXPECT_NE(text.find(std::to_string(plan.pinned_bytes())), std::string::npos);
}

TEST(RankMemory, OfACpuHasOneArena) {
  auto on_cpu = device_demand();
  on_cpu.on_device = false;
  const RankMemoryPlan plan(layout(kernels::DType::bf16), on_cpu);
  EXPECT_EQ(plan.pinned_bytes(), 0U);
  for (const auto& section : plan.sections()) EXPECT_EQ(section.space, kernels::MemorySpace::host) << to_string(section.kind);
  for (const auto kind : {MemoryKind::batch_copy, MemoryKind::scalar_copy, MemoryKind::logits_copy, MemoryKind::ring_copy})
    EXPECT_EQ(plan.bytes(kind), 0U) << to_string(kind);
  EXPECT_EQ(plan.bytes(MemoryKind::offload), 4 * 768U);
  EXPECT_EQ(plan.print().find("pinned"), std::string::npos);
  const RankMemory memory(plan);
  EXPECT_EQ(memory.link_ring(1).data(), memory.ring(1).data());
}

TEST(RankMemory, OfAGpuLiesWhereItSays) {
  if (const std::string why = kernels::why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
  const kernels::Device device{kernels::DeviceKind::cuda, 0};
  const RankMemory memory(RankMemoryPlan(layout(kernels::DType::bf16), device_demand()), device);
  EXPECT_EQ(memory.device(), device);
  EXPECT_EQ(memory.link_ring(0).data(), memory.ring(0).data());
  EXPECT_NE(memory.link_ring(1).data(), memory.ring(1).data());
  EXPECT_EQ(memory.link_ring(1).size(), memory.ring(1).size());
  const auto bytes = memory.bytes();
  const auto in_device = [&](const std::byte* at) { return at >= bytes.data() && at < bytes.data() + bytes.size(); };
  EXPECT_TRUE(in_device(memory.slot(MemoryKind::stash_input, StageId{0}, 3)));
  EXPECT_TRUE(in_device(memory.ring(1).data()));
  for (std::byte* at : {memory.slot(MemoryKind::batch_copy, no_stage, 2), memory.slot(MemoryKind::offload, StageId{0}, 3),
                        memory.slot(MemoryKind::staging, no_stage, 2), memory.link_ring(1).data()}) {
    EXPECT_FALSE(in_device(at));
    EXPECT_EQ(*at, std::byte{0});
    *at = std::byte{1};  // the host writes there
  }
}

TEST(RankMemory, TheHostHasASlotForEachResultThatADeviceWritesInOnePlace) {
  const StageId last{1};
  const RankMemory memory(RankMemoryPlan(layout(kernels::DType::bf16), device_demand()), testing::made_up_device);
  testing::MadeUpContext device;
  for (int index = 0; index < 8; ++index) {
    std::byte* working = memory.working_slot(MemoryKind::result, last, index);
    EXPECT_EQ(working, memory.slot(MemoryKind::result, last, 0));
    *working = static_cast<std::byte>(index + 1);
    memory.copy_to_host(device, kernels::StreamKind::compute, MemoryKind::result, last, index);
  }
  for (int index = 0; index < 8; ++index)
    EXPECT_EQ(*memory.host_slot(MemoryKind::result, last, index), static_cast<std::byte>(index + 1)) << index;
  tests::expect_error([&] { static_cast<void>(memory.host_slot(MemoryKind::result, last, 8)); }, ExitCode::internal, {"result_copy"});
}

TEST(RankMemory, WithoutATwinTheHostAndProgramsShareASlot) {
  const StageId last{1};
  const RankMemory memory(RankMemoryPlan(layout(kernels::DType::bf16), demand()));
  for (int index = 0; index < 8; ++index) {
    EXPECT_EQ(memory.host_slot(MemoryKind::result, last, index), memory.slot(MemoryKind::result, last, index));
    EXPECT_EQ(memory.working_slot(MemoryKind::result, last, index), memory.slot(MemoryKind::result, last, index));
  }
  EXPECT_EQ(memory.working_slot(MemoryKind::result, last, 8), nullptr);
  testing::MadeUpContext device;
  memory.copy_to_host(device, kernels::StreamKind::compute, MemoryKind::result, last, 3);
  memory.copy_to_device(device, kernels::StreamKind::copy_in, MemoryKind::batch, no_stage, 1);
  EXPECT_EQ(device.copies(kernels::StreamKind::compute) + device.copies(kernels::StreamKind::copy_in), 0);
}

TEST(RankMemory, SaysWhatItWasForWhereTheSystemHasNone) {
  auto huge = demand();
  huge.stages[1].workspace = std::size_t{1} << 60;
  huge.stages[0].stash_input = std::size_t{1} << 32;
  const RankMemoryPlan plan(layout(kernels::DType::bf16), huge);
  tests::expect_error([&] { const RankMemory memory(plan); }, ExitCode::memory,
                      {"the plan needs stage 0: 16.00 GiB, stage 1: 0.0 MiB, weights, gradients, optimizer, workspace and rings: "
                       "1073741824.00 GiB"});
}

TEST(RankMemory, EvaluationNeedsNoStates) {
  auto forward = demand();
  forward.training = false;
  const RankMemoryPlan plan(layout(kernels::DType::f32), forward);
  EXPECT_EQ(plan.find(MemoryKind::state), nullptr);
  EXPECT_EQ(plan.find(MemoryKind::accumulator), nullptr);
}

TEST(RankMemory, GivesSlotsAndRefusesOthers) {
  const RankMemory memory(RankMemoryPlan(layout(kernels::DType::f32), demand()));
  EXPECT_EQ(memory.slot(MemoryKind::stash_input, StageId{0}, 3) - memory.slot(MemoryKind::stash_input, StageId{0}, 0), 3 * 1024);
  tests::expect_error([&] { (void)memory.slot(MemoryKind::stash_input, StageId{0}, 4); }, ExitCode::internal, {"slot 4", "stash_input"});
  tests::expect_error([&] { (void)memory.slot(MemoryKind::logits, StageId{1}); }, ExitCode::internal, {"logits"});
  EXPECT_EQ(memory.slot_or_null(MemoryKind::boundary_in, StageId{0}), nullptr);
}

}  // namespace
}  // namespace millrace::runtime
