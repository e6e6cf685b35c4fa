#include "runtime/engine/rank_memory.hpp"

#include <gtest/gtest.h>

#include <set>

#include "kernels/base/buffer.hpp"
#include "kernels/base/device_context.hpp"
#include "tests/runtime/engine/made_up_device.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

RankMemoryRequest demand() {
  RankMemoryRequest demand;
  demand.accumulators = 2;
  demand.staging = true;
  demand.batches = 3;
  demand.shared_copy = 200;
  demand.stages.resize(2);
  for (int i = 0; i < 2; ++i) {
    auto& stage = demand.stages[static_cast<std::size_t>(i)];
    stage.stage = StageId{i};
    stage.master = i == 0 ? 512 : 100;
    stage.staged = stage.master;
    stage.copy = i == 0 ? 256 : 0;
    stage.accumulator = i == 0 ? 512 : 640;
    stage.square = 8;
    stage.state = 2 * stage.master;
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
  const RankMemoryPlan plan(demand());
  std::size_t end = 0;
  for (const auto& section : plan.sections()) {
    EXPECT_EQ(section.offset, end) << to_string(section.kind);
    EXPECT_EQ(section.slot_bytes % kernels::kAlignment, 0U);
    end += section.bytes();
  }
  EXPECT_EQ(plan.total_bytes(), end);
  EXPECT_EQ(plan.bytes(MemoryKind::accumulator), 2 * 1152U);
  EXPECT_EQ(plan.bytes(MemoryKind::state), 1024U + 256U);
  EXPECT_EQ(plan.bytes(MemoryKind::staging), 1536U + 384U) << "parameters and states, each stage's in one slot";
  EXPECT_EQ(plan.bytes(MemoryKind::copy), 256U + 256U) << "a stage's, and the rank's own place";
  EXPECT_EQ(plan.bytes(MemoryKind::stash_input), 7 * 1024U);
  EXPECT_EQ(plan.bytes(MemoryKind::workspace), 5120U) << "shared: the largest, not the sum";
  EXPECT_EQ(plan.bytes(MemoryKind::batch), 3 * 512U);
  EXPECT_EQ(plan.find(MemoryKind::boundary_in, StageId{0}), nullptr);
  EXPECT_NE(plan.print().find(std::to_string(plan.total_bytes())), std::string::npos);
  EXPECT_NE(plan.print().find("stash_input"), std::string::npos);
}

// What a stage owns is a section of its own. Masters are one region all the same, and so are copies, which ShardLayout counts on.
TEST(RankMemory, MastersAndCopiesOfAllStagesAreOneRegionEach) {
  auto request = demand();
  request.stages[1].copy = 64;
  for (const bool on_device : {false, true}) {
    request.on_device = on_device;
    const RankMemoryPlan plan(request);
    for (const MemoryKind kind : {MemoryKind::master, MemoryKind::state, MemoryKind::accumulator, MemoryKind::staging, MemoryKind::square})
      for (const StageId stage : {StageId{0}, StageId{1}}) EXPECT_NE(plan.find(kind, stage), nullptr) << to_string(kind);
    EXPECT_EQ(plan.find(MemoryKind::master), nullptr);
    const RankMemory memory(plan, on_device ? testing::made_up_device : kernels::Device{});
    EXPECT_EQ(memory.slot(MemoryKind::master, StageId{0}), memory.region(MemoryKind::master));
    EXPECT_EQ(memory.slot(MemoryKind::master, StageId{1}), memory.region(MemoryKind::master) + 512);
    EXPECT_EQ(memory.slot(MemoryKind::copy, StageId{1}), memory.region(MemoryKind::copy) + 256);
    EXPECT_EQ(memory.slot(MemoryKind::copy), memory.region(MemoryKind::copy) + 256 + 128);
    EXPECT_EQ(memory.region(MemoryKind::logits), nullptr);
  }
}

RankMemoryRequest device_demand() {
  auto on_device = demand();
  on_device.on_device = true;
  on_device.stages[0].offload = 700;
  on_device.stages[1].logits = 4000;
  on_device.rings = {{0, 2000, false}, {1, 3000, true}};
  return on_device;
}

TEST(RankMemory, StatesMayLieInTheMemoryOfTheHost) {
  auto request = device_demand();
  const RankMemoryPlan before(request);
  request.states_on_host = true;
  const RankMemoryPlan plan(request);
  const auto states = plan.bytes(MemoryKind::state);
  EXPECT_EQ(states, 1024U + 256U);
  for (const auto stage : {StageId{0}, StageId{1}}) {
    EXPECT_EQ(before.find(MemoryKind::state, stage)->space, kernels::MemorySpace::device);
    EXPECT_EQ(plan.find(MemoryKind::state, stage)->space, kernels::MemorySpace::pinned_host);
  }
  EXPECT_EQ(plan.total_bytes(), before.total_bytes() - states);
  EXPECT_EQ(plan.pinned_bytes(), before.pinned_bytes() + states);
  request.on_device = false;
  const RankMemoryPlan on_cpu(request);
  EXPECT_EQ(on_cpu.find(MemoryKind::state, StageId{0})->space, kernels::MemorySpace::host);
  EXPECT_EQ(on_cpu.pinned_bytes(), 0U);
}

TEST(RankMemory, OfAGpuHasTwoArenas) {
  using enum MemoryKind;
  const RankMemoryPlan plan(device_demand());
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
  EXPECT_EQ(plan.bytes(offload), 4 * 768U) << "one slot per microbatch in flight";
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
  const RankMemoryPlan plan(on_cpu);
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
  const RankMemory memory(RankMemoryPlan{device_demand()}, device);
  EXPECT_EQ(memory.device(), device);
  EXPECT_EQ(memory.link_ring(0).data(), memory.ring(0).data());
  EXPECT_NE(memory.link_ring(1).data(), memory.ring(1).data());
  EXPECT_EQ(memory.link_ring(1).size(), memory.ring(1).size());
  const auto bytes = memory.bytes();
  const auto in_device = [&](const std::byte* at) { return at >= bytes.data() && at < bytes.data() + bytes.size(); };
  EXPECT_TRUE(in_device(memory.slot(MemoryKind::stash_input, StageId{0}, 3)));
  EXPECT_TRUE(in_device(memory.ring(1).data()));
  for (std::byte* at : {memory.slot(MemoryKind::batch_copy, no_stage, 2), memory.slot(MemoryKind::offload, StageId{0}, 3),
                        memory.slot(MemoryKind::staging, StageId{1}), memory.link_ring(1).data()}) {
    EXPECT_FALSE(in_device(at));
    EXPECT_EQ(*at, std::byte{0});
    *at = std::byte{1};  // the host writes there
  }
}

TEST(RankMemory, TheHostHasASlotForEachResultThatADeviceWritesInOnePlace) {
  const StageId last{1};
  const RankMemory memory(RankMemoryPlan{device_demand()}, testing::made_up_device);
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
  const RankMemory memory(RankMemoryPlan{demand()});
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
  const RankMemoryPlan plan(huge);
  tests::expect_error([&] { const RankMemory memory(plan); }, ExitCode::memory,
                      {"the plan needs stage 0: 16.00 GiB, stage 1: 0.0 MiB, workspace, batches and rings: 1073741824.00 GiB"});
}

TEST(RankMemory, EvaluationNeedsNoStates) {
  auto forward = demand();
  forward.training = false;
  const RankMemoryPlan plan(forward);
  EXPECT_EQ(plan.bytes(MemoryKind::master), 640U);
  EXPECT_EQ(plan.bytes(MemoryKind::state), 0U);
  EXPECT_EQ(plan.bytes(MemoryKind::accumulator), 0U);
}

TEST(RankMemory, GivesSlotsAndRefusesOthers) {
  const RankMemory memory(RankMemoryPlan{demand()});
  EXPECT_EQ(memory.slot(MemoryKind::stash_input, StageId{0}, 3) - memory.slot(MemoryKind::stash_input, StageId{0}, 0), 3 * 1024);
  tests::expect_error([&] { (void)memory.slot(MemoryKind::stash_input, StageId{0}, 4); }, ExitCode::internal, {"slot 4", "stash_input"});
  tests::expect_error([&] { (void)memory.slot(MemoryKind::logits, StageId{1}); }, ExitCode::internal, {"logits"});
  EXPECT_EQ(memory.slot_or_null(MemoryKind::boundary_in, StageId{0}), nullptr);
}

}  // namespace
}  // namespace millrace::runtime
