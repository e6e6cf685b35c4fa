#include "runtime/program/memory_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "runtime/program/ops/rules.hpp"
#include "tests/runtime/program/rig.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime::testing {
namespace {

using kernels::DType;

constexpr std::array kinds = {ProgramKind::forward, ProgramKind::input_gradient, ProgramKind::weight_gradient, ProgramKind::backward};

std::size_t at(Region region) { return static_cast<std::size_t>(region); }
std::size_t at(ProgramKind kind) { return static_cast<std::size_t>(kind); }

struct Run {
  BackwardMode mode;
  const char* policy;
  kernels::Implementation implementation;
};

const std::vector<Run>& every_run() {
  static const std::vector<Run> list = [] {
    std::vector<Run> runs;
    for (const auto mode : {BackwardMode::fused, BackwardMode::split})
      for (const char* policy : {"none", "minimal", "full"})
        for (const auto implementation : {kernels::Implementation::reference, kernels::Implementation::fast})
          runs.push_back({mode, policy, implementation});
    return runs;
  }();
  return list;
}

/// The programs of a mode as one list of operations, to determine what is in memory at each of them.
std::vector<std::pair<ProgramKind, const Operation*>> timeline(const ProgramSet& set, BackwardMode mode) {
  std::vector<std::pair<ProgramKind, const Operation*>> list;
  for (const auto kind : kinds)
    if (runs(mode, kind))
      for (const auto& operation : set.program(kind)) list.emplace_back(kind, &operation);
  return list;
}

TEST(MemoryPlan, NoTwoLiveValuesOverlap) {
  // The memory of a value that is copied back is in use before the operation that yields it, even at the first operation of I.
  auto list_of_runs = every_run();
  for (const auto mode : {BackwardMode::fused, BackwardMode::split})
    for (const char* policy : {"none,offload:context", "offload:mlpwi_0,offload:mlpwo"})
      list_of_runs.push_back({mode, policy, kernels::Implementation::fast});
  for (const auto& run : list_of_runs) {
    const Rig rig(SmallNet{}, {run.mode, run.policy});
    const auto list = timeline(rig.set, run.mode);
    std::map<int, std::pair<std::size_t, std::size_t>> lives;
    for (std::size_t i = 0; i < list.size(); ++i)
      for (const auto* ids : {&list[i].second->inputs, &list[i].second->outputs})
        for (const auto id : *ids) {
          const auto role = rig.set.value(id).role;
          if (role == Role::parameter || role == Role::accumulator) continue;
          // External inputs exist from the start.
          const auto& life = lives.try_emplace(id.index, role == Role::intermediate ? i : 0, i).first->second;
          lives[id.index] = {life.first, i};
        }
    int compared = 0;
    for (auto a = lives.begin(); a != lives.end(); ++a) {
      const auto place_a = rig.plan.placements[static_cast<std::size_t>(a->first)];
      const auto bytes_a = bytes_of(rig.set.values[static_cast<std::size_t>(a->first)].type);
      EXPECT_EQ(place_a.offset % kernels::kAlignment, 0U);
      EXPECT_LE(place_a.offset + bytes_a, rig.plan.region_bytes[at(place_a.region)]);
      for (auto b = std::next(a); b != lives.end(); ++b) {
        const auto place_b = rig.plan.placements[static_cast<std::size_t>(b->first)];
        const auto bytes_b = bytes_of(rig.set.values[static_cast<std::size_t>(b->first)].type);
        const bool together = a->second.first <= b->second.second && b->second.first <= a->second.second;
        if (place_a.region != place_b.region || !together) continue;
        ++compared;
        EXPECT_TRUE(place_a.offset + bytes_a <= place_b.offset || place_b.offset + bytes_b <= place_a.offset)
            << rig.set.values[static_cast<std::size_t>(a->first)].name << " and "
            << rig.set.values[static_cast<std::size_t>(b->first)].name;
      }
    }
    EXPECT_GT(compared, 20);
  }
}

/// The bytes of a region that a run changed, found by running on two fill patterns.
std::vector<bool> touched(Rig& rig, Region region, const std::function<void()>& run) {
  std::vector<std::vector<std::byte>> after;
  for (const auto pattern : {std::byte{0xa5}, std::byte{0x5a}}) {
    rig.fill(region, pattern);
    run();
    const auto bytes = rig.region(region);
    after.emplace_back(bytes.begin(), bytes.end());
  }
  std::vector<bool> result(after[0].size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = after[0][i] != std::byte{0xa5} || after[1][i] != std::byte{0x5a};
  return result;
}

std::size_t end_of_touched(const std::vector<bool>& bytes, std::size_t limit) {
  while (limit > 0 && !bytes[limit - 1]) --limit;
  return limit;
}

/// End of the last value that one of the programs writes to a region.
std::size_t end_of_values(const Rig& rig, Region region, std::initializer_list<ProgramKind> programs) {
  std::size_t end = 0;
  for (const auto kind : programs) {
    if (!runs(rig.plan.mode, kind)) continue;
    for (const auto& operation : rig.set.program(kind))
      for (const auto id : operation.outputs) {
        const auto place = rig.plan.placements[static_cast<std::size_t>(id.index)];
        if (place.region == region) end = std::max(end, place.offset + bytes_of(rig.set.value(id).type));
      }
  }
  return end;
}

TEST(MemoryPlan, TheHighestByteTouchedIsThePlans) {
  for (const auto& run : every_run()) {
    Rig rig(SmallNet{}, {run.mode, run.policy, run.implementation});
    rig.run(ProgramKind::forward);
    rig.run_backward();  // from here on every input is valid
    for (const auto region : {Region::stash_input, Region::stash_weight, Region::handoff}) {
      const auto bytes = touched(rig, region, [&] {
        rig.run(ProgramKind::forward);
        rig.run_backward();
      });
      const auto end = end_of_touched(bytes, bytes.size());
      EXPECT_EQ(end, end_of_values(rig, region, {ProgramKind::forward, ProgramKind::input_gradient}))
          << to_string(region) << " " << run.policy;
      EXPECT_EQ(kernels::align_up(end), rig.plan.region_bytes[at(region)]) << to_string(region) << " " << run.policy;
    }
    for (const auto kind : kinds) {
      if (!runs(run.mode, kind)) continue;
      const auto bytes = touched(rig, Region::workspace, [&] { rig.run(kind); });
      const auto scratch = rig.plan.scratch_offset[at(kind)];
      EXPECT_EQ(end_of_touched(bytes, scratch), end_of_values(rig, Region::workspace, {kind})) << to_string(kind) << " " << run.policy;
      EXPECT_LE(end_of_touched(bytes, bytes.size()), rig.plan.workspace_bytes[at(kind)]) << to_string(kind) << " " << run.policy;
      EXPECT_EQ(rig.plan.workspace_bytes[at(kind)], scratch + rig.plan.scratch_bytes[at(kind)]);
    }
  }
}

SmallNet large_net() {
  SmallNet net;
  net.compute = DType::bf16;
  net.rows = 2;
  net.sequence = 1024;
  net.width = 512;
  net.heads = 8;
  net.key_heads = 4;
  net.head_dim = 64;
  net.hidden = 1408;
  net.vocabulary = 1024;
  return net;
}

/// The peak size of the values that a program holds in the workspace at once.
std::size_t peak(const ProgramSet& set, const MemoryPlan& plan, ProgramKind kind) {
  const auto& program = set.program(kind);
  std::map<int, std::pair<std::size_t, std::size_t>> lives;
  for (std::size_t i = 0; i < program.size(); ++i)
    for (const auto* ids : {&program[i].outputs, &program[i].inputs})
      for (const auto id : *ids)
        if (set.value(id).role == Role::intermediate && plan.placements[static_cast<std::size_t>(id.index)].region == Region::workspace)
          lives[id.index] = {lives.try_emplace(id.index, i, i).first->second.first, i};
  std::size_t most = 0;
  for (std::size_t i = 0; i < program.size(); ++i) {
    std::size_t now = 0;
    for (const auto& [value, life] : lives)
      if (life.first <= i && i <= life.second) now += kernels::align_up(bytes_of(set.values[static_cast<std::size_t>(value)].type));
    most = std::max(most, now);
  }
  return most;
}

TEST(MemoryPlan, AWorkspaceIsHardlyLargerThanWhatItHoldsAtOnce) {
  auto net = large_net();
  net.end_layer = 4;
  for (const char* policy : {"none", "minimal", "full"}) {
    const auto set = differentiate(build(net), RematerializationPolicy::parse(policy, labels()));
    const auto nowhere = [](const Value&) { return Place{Region::master, 0}; };
    for (const auto mode : {BackwardMode::fused, BackwardMode::split}) {
      const auto plan = plan_memory(set, mode, {nowhere, nowhere}, 2);
      for (const auto kind : kinds) {
        if (!runs(mode, kind)) continue;
        EXPECT_GE(plan.scratch_offset[at(kind)], peak(set, plan, kind)) << to_string(kind) << " " << policy;
        EXPECT_LE(plan.scratch_offset[at(kind)], peak(set, plan, kind) * 5 / 4) << to_string(kind) << " " << policy;
      }
    }
  }
}

/// A value in the workspace: its size, and the operations of F from which to which it is in memory.
struct Span {
  std::int64_t size;  // in units of kernels::kAlignment
  int first, last;
};

/// A program of an operation for each position, which writes the values that begin there and reads those that end there.
ProgramSet program_of(const std::vector<Span>& spans) {
  ProgramSet set;
  std::vector<Operation> program(1);
  const auto step = [&](int position) -> Operation& {
    if (program.size() <= static_cast<std::size_t>(position)) program.resize(static_cast<std::size_t>(position) + 1);
    return program[static_cast<std::size_t>(position)];
  };
  for (const auto& [size, first, last] : spans) {
    const ValueId id{static_cast<std::int32_t>(set.values.size())};
    const auto elements = size * static_cast<std::int64_t>(kernels::kAlignment / sizeof(float));
    set.values.push_back({.type = {DType::f32, {elements}}, .name = "value " + std::to_string(id.index)});
    step(first).outputs.push_back(id);
    if (last > first) step(last).inputs.push_back(id);
  }
  for (auto& operation : program) operation.rule = &copy_rule();
  set.programs[at(ProgramKind::forward)] = std::move(program);
  return set;
}

/// Where the values lie, in the same units.
std::vector<std::size_t> offsets_of(const std::vector<Span>& spans) {
  const auto plan = plan_memory(program_of(spans), BackwardMode::fused, {}, 1);
  std::vector<std::size_t> offsets;
  for (const auto& place : plan.placements) {
    EXPECT_EQ(place.region, Region::workspace);
    EXPECT_EQ(place.offset % kernels::kAlignment, 0U);
    offsets.push_back(place.offset / kernels::kAlignment);
  }
  return offsets;
}

// Five values that are in memory at the same time are stacked, the largest at the lowest address. Two of them end early and leave
// gaps: 8 units, from 9 to 17, and 6 units, from 24 to 30.
const std::vector<Span> tower{{9, 0, 9}, {8, 0, 4}, {7, 0, 9}, {6, 0, 4}, {5, 0, 9}};

std::vector<std::size_t> offsets_in_tower(std::vector<Span> more) {
  auto spans = tower;
  spans.insert(spans.end(), more.begin(), more.end());
  const auto offsets = offsets_of(spans);
  EXPECT_EQ(std::vector(offsets.begin(), offsets.begin() + 5), (std::vector<std::size_t>{0, 9, 17, 24, 30}));
  return {offsets.begin() + 5, offsets.end()};
}

TEST(MemoryPlan, AValueTakesTheSmallestGapThatHoldsIt) {
  using Offsets = std::vector<std::size_t>;
  EXPECT_EQ(offsets_in_tower({{4, 5, 9}}), (Offsets{24})) << "the smaller one is the second";
  EXPECT_EQ(offsets_in_tower({{4, 5, 9}, {3, 5, 9}}), (Offsets{24, 9})) << "what is left of it, 2, holds no 3";
  EXPECT_EQ(offsets_in_tower({{4, 5, 9}, {3, 5, 9}, {2, 5, 9}}), (Offsets{24, 9, 28})) << "as large as the gap";
  EXPECT_EQ(offsets_in_tower({{7, 5, 9}, {1, 5, 9}}), (Offsets{9, 16})) << "the smaller one is the first";
  EXPECT_EQ(offsets_in_tower({{5, 5, 9}, {5, 5, 9}, {5, 5, 9}}), (Offsets{24, 9, 35}))
      << "what is left of both is too small: above them all";
  EXPECT_EQ(offsets_in_tower({{7, 5, 9}, {5, 5, 9}, {1, 5, 9}}), (Offsets{9, 24, 16})) << "two that are alike: the lower";
}

TEST(MemoryPlan, MemoryIsFreeFromTheOperationBehindTheLastReader) {
  EXPECT_EQ(offsets_of({{2, 0, 3}, {1, 4, 5}}), (std::vector<std::size_t>{0, 0}));
  EXPECT_EQ(offsets_of({{2, 0, 3}, {1, 3, 5}}), (std::vector<std::size_t>{0, 2})) << "read while the other is written";
  EXPECT_EQ(offsets_of({{1, 0, 3}, {2, 3, 3}}), (std::vector<std::size_t>{2, 0})) << "written and not read";
  const auto plan = plan_memory(program_of({{2, 0, 3}, {1, 3, 5}}), BackwardMode::fused, {}, 1);
  EXPECT_EQ(plan.region_bytes[at(Region::workspace)], 3 * kernels::kAlignment);
}

// A copy that has begun writes to the memory of a value that a later operation yields, so this memory is in use from the first
// operation that names it.
TEST(MemoryPlan, MemoryIsTakenBeforeTheValueIsYielded) {
  for (const std::size_t begins : {0U, 1U}) {
    auto set = program_of({{2, 3, 4}, {2, 0, 1}, {2, 1, 2}});
    set.programs[at(ProgramKind::forward)][begins].inputs.push_back({0});
    const auto plan = plan_memory(set, BackwardMode::fused, {}, 1);
    EXPECT_NE(plan.placements[0].offset, plan.placements[1].offset) << begins;
    EXPECT_NE(plan.placements[0].offset, plan.placements[2].offset) << begins;
  }
}

TEST(MemoryPlan, AValueHasOneWriter) {
  auto twice = program_of({{1, 0, 1}});
  twice.programs[at(ProgramKind::backward)] = twice.program(ProgramKind::forward);
  tests::expect_error([&] { (void)plan_memory(twice, BackwardMode::fused, {}, 1); }, ExitCode::internal,
                      {"'value 0' is written by 2 programs, expected one"});
  EXPECT_NO_THROW((void)plan_memory(twice, BackwardMode::split, {}, 1)) << "no program of this mode writes it again";
  auto never = program_of({{1, 0, 1}});
  never.programs[at(ProgramKind::forward)][0].outputs.clear();
  tests::expect_error([&] { (void)plan_memory(never, BackwardMode::fused, {}, 1); }, ExitCode::internal,
                      {"'value 0' is written by 0 programs, expected one"});
}

TEST(MemoryPlan, ABatchHasNoOtherField) {
  tests::expect_error([] { (void)batch_offset("token", 40); }, ExitCode::internal, {"a batch has no field 'token'"});
  EXPECT_EQ(batch_offset("samples", 40), 1024U);
  EXPECT_EQ(batch_offset("compressed", 40), 1280U);
  EXPECT_EQ(batch_offset("end", 40), 1536U);
  EXPECT_EQ(batch_offset("positions", 33), 256U) << "rounded up to the alignment";
}

TEST(MemoryPlan, BatchFieldsAlwaysLieInTheSamePlaces) {
  EXPECT_EQ(batch_offset("tokens", 40), 0U);
  EXPECT_EQ(batch_offset("positions", 40), 256U);
  EXPECT_EQ(batch_offset("segments", 40), 512U);
  EXPECT_EQ(batch_offset("targets", 40), 768U);
  SmallNet middle;
  middle.first = middle.last = false;
  const Rig rig(middle, {});
  EXPECT_EQ(rig.plan.region_bytes[at(Region::batch)], batch_offset("end", middle.tokens()));
  for (std::size_t i = 0; i < rig.set.values.size(); ++i) {
    if (rig.set.values[i].role != Role::batch) continue;
    EXPECT_EQ(rig.plan.placements[i].offset, batch_offset(rig.set.values[i].name, middle.tokens())) << rig.set.values[i].name;
  }
}

TEST(MemoryPlan, AnEmptyStageHasRoomForTheBatchToo) {
  ProgramBuilder builder({DType::f32, 5, 8});
  builder.set_boundary_out(builder.boundary_in(16));
  const auto set = differentiate(builder.finish(), {});
  EXPECT_EQ(plan_memory(set, BackwardMode::split, {}, 1).region_bytes[at(Region::batch)], batch_offset("end", 40));
}

TEST(MemoryPlan, ResultsGoStraightToTheirRings) {
  SmallNet middle;
  middle.first = middle.last = false;
  const Rig rig(middle, {});
  const auto region = [&](ValueId id) { return rig.plan.placements[static_cast<std::size_t>(id.index)].region; };
  EXPECT_EQ(region(rig.set.inputs.at(0).value), Region::boundary_in);
  EXPECT_EQ(region(rig.set.outputs.at(0).value), Region::boundary_out);
  EXPECT_EQ(region(rig.set.outputs.at(0).gradient), Region::gradient_in);
  EXPECT_EQ(region(rig.set.inputs.at(0).gradient), Region::gradient_out);
  EXPECT_EQ(kind_of(rig.set.program(ProgramKind::forward).back()), "linear + addend");  // no copy
  EXPECT_EQ(kind_of(rig.set.program(ProgramKind::input_gradient).back()), "rms_norm_input_gradient + addend");
}

TEST(MemoryPlan, ForwardAloneKeepsNothing) {
  const Rig rig(SmallNet{}, {BackwardMode::forward_only});
  for (const auto region : {Region::stash_input, Region::stash_weight, Region::handoff, Region::gradient_in, Region::gradient_out})
    EXPECT_EQ(rig.plan.region_bytes[at(region)], 0U) << to_string(region);
  EXPECT_GT(rig.plan.region_bytes[at(Region::workspace)], 0U);
}

std::size_t planned_bytes(const SmallNet& net, BackwardMode mode) {
  const auto set = differentiate(build(net), {});
  const auto nowhere = [](const Value&) { return Place{Region::master, 0}; };
  const auto plan = plan_memory(set, mode, {nowhere, nowhere}, 2);
  std::size_t sum = 0;
  for (const auto bytes : plan.region_bytes) sum += bytes;
  return sum;
}

TEST(MemoryPlan, MemoryGrowsWithTheSequenceAsItselfAndNotAsItsSquare) {
  for (const auto mode : {BackwardMode::fused, BackwardMode::split}) {
    auto net = large_net();
    const auto once = planned_bytes(net, mode);
    net.sequence *= 2;
    EXPECT_LE(static_cast<double>(planned_bytes(net, mode)), 2.2 * static_cast<double>(once));
  }
}

TEST(MemoryPlan, ALargeVocabularyAddsLessThanItsLogits) {
  for (const auto mode : {BackwardMode::fused, BackwardMode::split, BackwardMode::forward_only}) {
    auto net = large_net();
    const auto small = planned_bytes(net, mode);
    net.vocabulary = 131072;
    const auto large = planned_bytes(net, mode);
    const auto tile = static_cast<std::size_t>(net.tokens()) * 4096 * sizeof(float);  // a 32nd of all logits
    EXPECT_LE(large, small + tile);
  }
}

// -- a kernel that only the CPU has -------------------------------------------------------------------------------------------------------

constinit kernels::Kernel<void(const kernels::ExecutionContext&, const kernels::Tensor& x, const kernels::Tensor& y)> halve_row("halve");
void halve_on_cpu(const kernels::ExecutionContext&, const kernels::Tensor& x, const kernels::Tensor& y) {
  for (std::int64_t i = 0; i < x.elements(); ++i) y.as<float>()[i] = x.as<float>()[i] / 2;
}
const kernels::InTable halve_in_table{kernels::Backend::cpu, halve_row, halve_on_cpu};

class Halve final : public OperationRule {
 public:
  std::string_view name() const override { return "halve"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override { return {inputs[0]}; }
  Cost cost(std::span<const ValueType>, std::span<const ValueType>, const Attributes&) const override { return {}; }
  KernelRows kernel_rows() const override { return {&halve_row}; }
  void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const Attributes&, kernels::Scratch) const override {
    halve_row(context, inputs[0], outputs[0]);
  }
};

TEST(MemoryPlan, NamesTheKernelThatADeviceLacks) {
  static const Halve rule;
  ProgramBuilder builder({DType::f32, 1, 8});
  const auto x = builder.boundary_in(16);
  builder.enter(3, "layers.3.mlp");
  builder.set_boundary_out(builder.append(rule, {x}, {}, "halve")[0]);
  const auto set = differentiate(builder.finish(), {});
  EXPECT_GT(plan_memory(set, BackwardMode::forward_only, {}, 1).region_bytes[at(Region::boundary_out)], 0U);
  tests::expect_error(
      [&] {
        static_cast<void>(plan_memory(set, BackwardMode::forward_only, {}, {kernels::Device{kernels::DeviceKind::cuda, 0}, 1}));
      },
      ExitCode::config, {"device cuda has no kernel for halve (layers.3.mlp.halve)"});
}

}  // namespace
}  // namespace millrace::runtime::testing
