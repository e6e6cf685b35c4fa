#include "runtime/engine/stage.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* stage_component = "runtime.stage";

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
  fail(ExitCode::internal, stage_component, "unknown action kind {}", static_cast<int>(kind));
}

Stage::Stage(ShardLayout shard, ProgramSet training, std::optional<ProgramSet> logits, BackwardMode mode,
             const kernels::Processor& processor)
    : layout_(std::move(shard)),
      training_(std::make_shared<const ProgramSet>(std::move(training)), mode, layout_.places(), processor),
      evaluation_(training_.shared_programs(), BackwardMode::forward_only, layout_.places(), processor) {
  if (logits)
    logits_ = std::make_unique<Executable>(std::make_shared<const ProgramSet>(std::move(*logits)), BackwardMode::forward_only,
                                           layout_.places(), processor);
  note_results();
}

void Stage::note_results() {
  for (const ProgramKind kind : all_program_kinds) {
    const auto note = [&](ValueId result, std::size_t bytes) {
      const auto computes = [&](const Operation& operation) {
        return std::ranges::find(operation.outputs, result) != operation.outputs.end();
      };
      if (std::ranges::any_of(programs().program(kind), computes))
        written_results_[static_cast<std::size_t>(kind)].push_back({offset_of(result), bytes});
    };
    for (const StageLoss& loss : losses()) note(loss.value, sizeof(double));
    for (const StageObservation& observation : observations()) note(observation.value, bytes_of(programs().value(observation.value).type));
  }
}

const Executable& Stage::executable(Pass pass) const {
  const Executable* chosen = executables()[constant_slot(pass)];
  MILLRACE_CHECK(chosen != nullptr, ExitCode::internal, stage_component, "stage {} was made without a program for logits", stage());
  return *chosen;
}

Executable& Stage::executable(Pass pass) { return const_cast<Executable&>(std::as_const(*this).executable(pass)); }

std::array<const Executable*, 3> Stage::executables() const noexcept { return {&training_, &evaluation_, logits_.get()}; }

std::size_t Stage::constant_slot(Pass pass) noexcept { return pass == Pass::logits ? 2 : pass == Pass::evaluate ? 1 : 0; }

StageMemoryRequest Stage::demand(const StageSlotCounts& slots) const {
  StageMemoryRequest demand;
  demand.stage = stage();
  demand.slots = slots;
  demand.master = layout_.master.bytes;
  demand.copy = layout_.copy.bytes;
  demand.accumulator = layout_.kept_bytes;
  demand.leaf = layout_.leaves ? layout_.accumulator_bytes : 0;
  demand.expert_accumulator = layout_.expert_accumulator_bytes;
  demand.state = layout_.state_bytes;
  demand.staged = layout_.staged_bytes;
  demand.square = layout_.reported_pieces() * sizeof(double);
  demand.stash_input = training_.bytes(Region::stash_input);
  demand.stash_weight = training_.bytes(Region::stash_weight);
  demand.handoff = training_.bytes(Region::handoff);
  demand.offload = training_.bytes(Region::offload);
  demand.boundary_in = training_.bytes(Region::boundary_in);
  demand.boundary_out = training_.bytes(Region::boundary_out);
  demand.gradient_in = training_.bytes(Region::gradient_in);
  demand.gradient_out = training_.bytes(Region::gradient_out);
  demand.result = training_.bytes(Region::result);
  demand.scalar = training_.bytes(Region::scalar);
  demand.constants = logits_ ? 3 : 2;
  demand.logits = logits_ ? logits_->bytes(Region::boundary_out) : 0;
  for (const Executable* each : executables()) {
    if (each == nullptr) continue;
    demand.constant = std::max(demand.constant, each->bytes(Region::constant));
    demand.workspace = std::max(demand.workspace, each->workspace_bytes());
    demand.batch = std::max(demand.batch, each->bytes(Region::batch));
  }
  return demand;
}

const StageShard& Stage::shard() const {
  MILLRACE_CHECK(shard_.has_value(), ExitCode::internal, stage_component, "stage {} was not attached to memory", stage());
  return *shard_;
}

void Stage::attach(const RankMemory& memory, std::size_t scalars, std::shared_ptr<const Optimizer> optimizer) {
  memory_ = &memory;
  scalars_ = scalars;
  shard_.emplace(layout_, memory, std::move(optimizer));
  const auto all = executables();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == nullptr) continue;
    std::byte* base = memory.slot_or_null(MemoryKind::constant, stage(), static_cast<int>(i));
    if (base != nullptr) write_constants(all[i]->programs(), all[i]->plan(), base, memory.device());
  }
}

Bindings Stage::bindings(Pass pass, const ExecutionSlots& slots) const {
  MILLRACE_CHECK(memory_ != nullptr, ExitCode::internal, stage_component, "stage {} was not attached to memory", stage());
  Bindings bindings;
  const auto own = [&](Region region, MemoryKind kind, StageId stage, int index) {
    bindings[region] = memory_->slot_or_null(kind, stage, index);
  };
  bindings[Region::master] = memory_->region(MemoryKind::master);
  bindings[Region::copy] = memory_->region(MemoryKind::copy);
  layout_.leaves ? own(Region::accumulator, MemoryKind::leaf, no_stage, slots.accumulators)
                 : own(Region::accumulator, MemoryKind::accumulator, stage(), slots.accumulators);
  own(Region::expert_accumulator, MemoryKind::expert_accumulator, stage(), slots.expert_accumulators);
  own(Region::batch, MemoryKind::batch, no_stage, slots.batch);
  own(Region::stash_input, MemoryKind::stash_input, stage(), slots.stash_input);
  own(Region::stash_weight, MemoryKind::stash_weight, stage(), slots.stash_weight);
  own(Region::offload, MemoryKind::offload, stage(), slots.stash_input);
  own(Region::handoff, MemoryKind::handoff, stage(), slots.handoff);
  own(Region::workspace, MemoryKind::workspace, no_stage, slots.workspace);
  if (std::byte* scalars = memory_->slot_or_null(MemoryKind::scalar)) bindings[Region::scalar] = scalars + scalars_;
  own(Region::constant, MemoryKind::constant, stage(), static_cast<int>(constant_slot(pass)));
  bindings[Region::boundary_in] = slots.boundary_in;
  bindings[Region::gradient_in] = slots.gradient_in;
  bindings[Region::gradient_out] = slots.gradient_out;
  bindings[Region::boundary_out] = slots.boundary_out;
  if (pass == Pass::logits) own(Region::boundary_out, MemoryKind::logits, stage(), 0);
  bindings[Region::result] = memory_->working_slot(MemoryKind::result, stage(), slots.result);
  return bindings;
}

void Stage::run(Pass pass, const kernels::ExecutionContext& context, const ExecutionSlots& slots, OperationHook* hook) {
  if (makes_leaf(pass)) shard_->begin_leaf(context, slots.accumulators);
  executable(pass).run(program_of(pass), context, bindings(pass, slots), hook);
  complete(pass, context, slots);
}

/// What follows the last operation of a pass.
void Stage::complete(Pass pass, const kernels::ExecutionContext& context, const ExecutionSlots& slots) const {
  if (pass != Pass::logits) copy_results(program_of(pass), context, slots.result);
  // Replicas that divide the sums add what is theirs of all of them (Reduction).
  if (makes_leaf(pass) && !layout_.divides_sums) shard_->add_leaf(context, slots.accumulators);
}

void Stage::run_segment(Pass pass, std::size_t segment, const kernels::ExecutionContext& context, const ExecutionSlots& slots,
                        OperationHook* hook, ExchangePort* port) {
  if (segment == 0 && makes_leaf(pass)) shard_->begin_leaf(context, slots.accumulators);
  executable(pass).run_segment(program_of(pass), segment, context, bindings(pass, slots), hook, port);
  if (segment + 1 == segments(pass).size()) complete(pass, context, slots);
}

/// On a device with its own place for results, programs write those of every microbatch to that same place, so that the captured graph
/// can be reused. Only the results that this program has written are copied from there; the others are those of another microbatch.
void Stage::copy_results(ProgramKind kind, const kernels::ExecutionContext& context, int index) const {
  for (const Part& part : written_results_[static_cast<std::size_t>(kind)])
    memory_->copy_part_to_host(context.device_context(), kernels::StreamKind::compute, MemoryKind::result, stage(), index, part.offset,
                               part.bytes);
}

kernels::Tensor Stage::tensor(Pass pass, ValueId value, const ExecutionSlots& slots) const {
  return executable(pass).tensor(value, bindings(pass, slots));
}

void Stage::set_loss_scales(const StepCounts& counts) const {
  MILLRACE_CHECK(memory_ != nullptr, ExitCode::internal, stage_component, "stage {} was not attached to memory", stage());
  std::byte* base = memory_->host_slot(MemoryKind::scalar) + scalars_;
  for (const StageLoss& loss : losses()) {
    if (!loss.scale.valid()) continue;
    const float scale = loss.term.gradient_scale(counts);
    std::memcpy(base + plan().placements.at(static_cast<std::size_t>(loss.scale.index)).offset, &scale, sizeof(scale));
  }
}

double Stage::loss_sum(std::size_t term, int index) const {
  MILLRACE_CHECK(memory_ != nullptr, ExitCode::internal, stage_component, "stage {} was not attached to memory", stage());
  double sum = 0;
  std::memcpy(&sum, memory_->host_slot(MemoryKind::result, stage(), index) + offset_of(losses().at(term).value), sizeof(sum));
  return sum;
}

void Stage::add_observed(std::size_t place, int index, std::span<double> sums) const {
  MILLRACE_CHECK(memory_ != nullptr, ExitCode::internal, stage_component, "stage {} was not attached to memory", stage());
  const ValueId value = observations().at(place).value;
  const std::byte* from = memory_->host_slot(MemoryKind::result, stage(), index) + offset_of(value);
  const auto add = [&](const auto* entries) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(entries[i]);
  };
  if (programs().value(value).type.dtype == kernels::DType::i32)
    add(reinterpret_cast<const std::int32_t*>(from));
  else
    add(reinterpret_cast<const double*>(from));
}

}  // namespace millrace::runtime
