#include "runtime/engine/stage.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* kWho = "runtime.stage";

std::size_t bytes_in(const MemoryPlan& plan, Region region) { return plan.region_bytes[static_cast<std::size_t>(region)]; }

std::size_t workspace_of(const MemoryPlan& plan) {
  return std::max(bytes_in(plan, Region::workspace), *std::max_element(plan.workspace_bytes.begin(), plan.workspace_bytes.end()));
}

}  // namespace

std::string_view to_string(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return "forward";
    case Pass::input_gradient:
      return "input gradient";
    case Pass::weight_gradient:
      return "weight gradient";
    case Pass::backward:
      return "backward";
    case Pass::evaluate:
      return "evaluate";
    case Pass::logits:
      return "logits";
  }
  return "?";
}

ProgramKind program_of(Pass pass) {
  switch (pass) {
    case Pass::input_gradient:
      return ProgramKind::input_gradient;
    case Pass::weight_gradient:
      return ProgramKind::weight_gradient;
    case Pass::backward:
      return ProgramKind::backward;
    case Pass::evaluate:
    case Pass::logits:
      return ProgramKind::evaluate;
    default:
      return ProgramKind::forward;
  }
}

Pass pass_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return Pass::forward;
    case ActionKind::input_gradient:
      return Pass::input_gradient;
    case ActionKind::weight_gradient:
      return Pass::weight_gradient;
    case ActionKind::backward:
      return Pass::backward;
  }
  fail(ExitCode::internal, kWho, "action kind {} is none", static_cast<int>(kind));
}

Stage::Execution::Execution(ProgramSet set, BackwardMode mode, const ParameterPlaces& places, const kernels::Processor& processor, int slot)
    : own(std::move(set)),
      programs(own),
      plan(plan_memory(programs, mode, places, processor)),
      executor(programs, plan),
      constant_slot(slot) {}

Stage::Execution::Execution(const ProgramSet* shared, BackwardMode mode, const ParameterPlaces& places, const kernels::Processor& processor,
                            int slot)
    : programs(*shared), plan(plan_memory(programs, mode, places, processor)), executor(programs, plan), constant_slot(slot) {}

Stage::Stage(StageId stage, ProgramSet training, std::optional<ProgramSet> logits, BackwardMode mode, const ParameterPlaces& places,
             const kernels::Processor& processor)
    : stage_(stage),
      training_(std::move(training), mode, places, processor, 0),
      evaluation_(&training_.programs, BackwardMode::forward_only, places, processor, 1) {
  if (logits) logits_ = std::make_unique<Execution>(std::move(*logits), BackwardMode::forward_only, places, processor, 2);
}

const Stage::Execution& Stage::execution(Pass pass) const {
  if (pass == Pass::evaluate) return evaluation_;
  if (pass != Pass::logits) return training_;
  MILLRACE_CHECK(logits_ != nullptr, ExitCode::internal, kWho, "stage {} was made without a program for logits", stage_);
  return *logits_;
}

std::array<const Stage::Execution*, 3> Stage::executions() const noexcept { return {&training_, &evaluation_, logits_.get()}; }

StageMemoryRequest Stage::demand(const StageSlotCounts& slots) const {
  StageMemoryRequest demand;
  demand.stage = stage_;
  demand.slots = slots;
  demand.stash_input = bytes_in(plan(), Region::stash_input);
  demand.stash_weight = bytes_in(plan(), Region::stash_weight);
  demand.handoff = bytes_in(plan(), Region::handoff);
  demand.offload = bytes_in(plan(), Region::offload);
  demand.boundary_in = bytes_in(plan(), Region::boundary_in);
  demand.boundary_out = bytes_in(plan(), Region::boundary_out);
  demand.gradient_in = bytes_in(plan(), Region::gradient_in);
  demand.gradient_out = bytes_in(plan(), Region::gradient_out);
  demand.result = bytes_in(plan(), Region::result);
  demand.scalar = bytes_in(plan(), Region::scalar);
  demand.constants = logits_ ? 3 : 2;
  demand.logits = logits_ ? bytes_in(logits_->plan, Region::boundary_out) : 0;
  for (const Execution* each : executions()) {
    if (each == nullptr) continue;
    demand.constant = std::max(demand.constant, bytes_in(each->plan, Region::constant));
    demand.workspace = std::max(demand.workspace, workspace_of(each->plan));
    demand.batch = std::max(demand.batch, bytes_in(each->plan, Region::batch));
  }
  return demand;
}

void Stage::attach(const RankMemory& memory, std::size_t scalars) {
  memory_ = &memory;
  scalars_ = scalars;
  for (const Execution* each : executions()) {
    if (each == nullptr) continue;
    std::byte* base = memory.slot_or_null(MemoryKind::constant, stage_, each->constant_slot);
    if (base != nullptr) write_constants(each->programs, each->plan, base, memory.device());
  }
}

Bindings Stage::bindings(Pass pass, const ExecutionSlots& slots) const {
  MILLRACE_CHECK(memory_ != nullptr, ExitCode::internal, kWho, "stage {} was not attached to memory", stage_);
  Bindings bindings;
  const auto own = [&](Region region, MemoryKind kind, StageId stage, int index) {
    bindings[region] = memory_->slot_or_null(kind, stage, index);
  };
  own(Region::master, MemoryKind::master, no_stage, 0);
  own(Region::copy, MemoryKind::copy, no_stage, 0);
  own(Region::accumulator, MemoryKind::accumulator, no_stage, slots.accumulators);
  own(Region::batch, MemoryKind::batch, no_stage, slots.batch);
  own(Region::stash_input, MemoryKind::stash_input, stage_, slots.stash_input);
  own(Region::stash_weight, MemoryKind::stash_weight, stage_, slots.stash_weight);
  own(Region::offload, MemoryKind::offload, stage_, slots.stash_input);
  own(Region::handoff, MemoryKind::handoff, stage_, slots.handoff);
  own(Region::workspace, MemoryKind::workspace, no_stage, 0);
  if (std::byte* scalars = memory_->slot_or_null(MemoryKind::scalar)) bindings[Region::scalar] = scalars + scalars_;
  own(Region::constant, MemoryKind::constant, stage_, execution(pass).constant_slot);
  bindings[Region::boundary_in] = slots.boundary_in;
  bindings[Region::gradient_in] = slots.gradient_in;
  bindings[Region::gradient_out] = slots.gradient_out;
  bindings[Region::boundary_out] = slots.boundary_out;
  if (pass == Pass::logits) own(Region::boundary_out, MemoryKind::logits, stage_, 0);
  own(Region::result, MemoryKind::result, stage_, memory_->device().kind == kernels::DeviceKind::cuda ? 0 : slots.result);
  return bindings;
}

void Stage::run(Pass pass, const kernels::ExecutionContext& context, const ExecutionSlots& slots, OperationHook* hook,
                std::span<const std::int64_t> counts) {
  auto& chosen = const_cast<Execution&>(execution(pass));
  const Bindings memory = bindings(pass, slots);
  const auto kind = program_of(pass);
  if (!context.on_cuda()) return chosen.executor.run(kind, context, memory, hook, counts);
  const Bindings touched = chosen.executor.touched(kind, memory);
  if (context.device_context().graphs() && hook == nullptr && counts.empty())
    chosen.graphs.run(context.device_context(), kind, touched, [&] { chosen.executor.run(kind, context, memory); });
  else
    chosen.executor.run(kind, context, memory, hook, counts);
  if (touched[Region::result] != nullptr) copy_losses(kind, context, touched[Region::result], slots.result);
}

/// The terms of every microbatch are written to the same place of the device first, so that its graph is the same. Only those that the
/// program has written are copied from there: the others are another microbatch's.
void Stage::copy_losses(ProgramKind kind, const kernels::ExecutionContext& context, const std::byte* from, int index) const {
  std::byte* to = memory_->slot(MemoryKind::result_copy, stage_, index);
  for (std::size_t term = 0; term < losses().size(); ++term) {
    const auto written = [&](const Operation& operation) {
      return std::ranges::find(operation.outputs, losses()[term].value) != operation.outputs.end();
    };
    if (std::ranges::none_of(programs().program(kind), written)) continue;
    context.device_context().copy(kernels::StreamKind::compute, to + loss_offset(term), from + loss_offset(term), sizeof(double));
  }
}

kernels::Tensor Stage::tensor(Pass pass, ValueId value, const ExecutionSlots& slots) const {
  return execution(pass).executor.tensor(value, bindings(pass, slots));
}

std::size_t Stage::loss_offset(std::size_t term) const {
  return plan().placements.at(static_cast<std::size_t>(losses().at(term).value.index)).offset;
}

void Stage::set_loss_scales(const StepCounts& counts) const {
  MILLRACE_CHECK(memory_ != nullptr, ExitCode::internal, kWho, "stage {} was not attached to memory", stage_);
  std::byte* copy = memory_->slot_or_null(MemoryKind::scalar_copy);
  std::byte* base = (copy != nullptr ? copy : memory_->slot(MemoryKind::scalar)) + scalars_;
  for (const StageLoss& loss : losses()) {
    if (!loss.scale.valid()) continue;
    const float scale = loss.term.gradient_scale(counts);
    std::memcpy(base + plan().placements.at(static_cast<std::size_t>(loss.scale.index)).offset, &scale, sizeof(scale));
  }
}

double Stage::loss_sum(std::size_t term, int index) const {
  MILLRACE_CHECK(memory_ != nullptr, ExitCode::internal, kWho, "stage {} was not attached to memory", stage_);
  const std::byte* copy = memory_->slot_or_null(MemoryKind::result_copy, stage_, index);
  const std::byte* slot = copy != nullptr ? copy : memory_->slot(MemoryKind::result, stage_, index);
  double sum = 0;
  std::memcpy(&sum, slot + loss_offset(term), sizeof(sum));
  return sum;
}

}  // namespace millrace::runtime
