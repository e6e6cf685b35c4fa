#include "runtime/engine/rank_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/base/device_type.hpp"

namespace millrace::runtime {

std::string_view to_string(MemoryKind kind) {
  static constexpr std::array<std::string_view, memory_kind_count> names = {
      "master",       "copy",        "state",        "accumulator", "expert_accumulator",
      "staging",      "square",      "workspace",    "batch",       "scalar",
      "constant",     "stash_input", "stash_weight", "handoff",     "boundary_in",
      "boundary_out", "gradient_in", "gradient_out", "result",      "logits",
      "ring",         "offload",     "batch_copy",   "result_copy", "scalar_copy",
      "logits_copy",  "ring_copy",   "arrivals",     "leaf",        "gathered"};
  return names.at(static_cast<std::size_t>(kind));
}

RankMemoryPlan::RankMemoryPlan(const RankMemoryRequest& demand) : on_device_(demand.on_device) {
  using enum MemoryKind;
  const auto largest = [&](std::size_t StageMemoryRequest::*member) {
    std::size_t bytes = 0;
    for (const StageMemoryRequest& stage : demand.stages) bytes = std::max(bytes, stage.*member);
    return bytes;
  };
  add_shards(demand);
  add(workspace, no_stage, largest(&StageMemoryRequest::workspace), demand.workspaces);
  if (demand.training) add(arrivals, no_stage, demand.arrivals, reduction_steps_ahead);
  if (demand.training) add(leaf, no_stage, largest(&StageMemoryRequest::leaf), demand.leaves);
  add(batch, no_stage, largest(&StageMemoryRequest::batch), demand.batches);
  std::size_t scalars = 0;
  for (const StageMemoryRequest& stage : demand.stages) scalars += stage.scalar;
  scalars = std::max(scalars, sizeof(float));
  add(scalar, no_stage, scalars, 1);
  add_pinned(batch_copy, no_stage, largest(&StageMemoryRequest::batch), demand.batches);
  add_pinned(scalar_copy, no_stage, scalars, 1);
  for (const StageMemoryRequest& stage : demand.stages) {
    add(constant, stage.stage, stage.constant, stage.constants);
    add(stash_input, stage.stage, stage.stash_input, stage.slots.stash_input);
    add(stash_weight, stage.stage, stage.stash_weight, stage.slots.stash_weight);
    add(handoff, stage.stage, stage.handoff, stage.slots.handoff);
    add(boundary_in, stage.stage, stage.boundary_in, stage.slots.boundary_in);
    add(boundary_out, stage.stage, stage.boundary_out, stage.slots.boundary_out);
    add(gradient_in, stage.stage, stage.gradient_in, stage.slots.gradient_in);
    add(gradient_out, stage.stage, stage.gradient_out, stage.slots.gradient_out);
    add(result, stage.stage, stage.result, on_device_ ? std::min(stage.slots.results, 1) : stage.slots.results);
    add_pinned(result_copy, stage.stage, stage.result, stage.slots.results);
    add(logits, stage.stage, stage.logits, stage.logits > 0 ? 1 : 0);
    add_pinned(logits_copy, stage.stage, stage.logits, stage.logits > 0 ? 1 : 0);
    add_readable(offload, stage.stage, stage.offload, stage.slots.stash_input);
  }
  for (const RingDemand& channel : demand.rings) {
    add(ring, no_stage, channel.bytes, 1, channel.channel);
    if (channel.copied) add_pinned(ring_copy, no_stage, channel.bytes, 1, channel.channel);
  }
}

/// Kind by kind, so that masters and copies are one region each (ShardLayout).
void RankMemoryPlan::add_shards(const RankMemoryRequest& demand) {
  using enum MemoryKind;
  for (const StageMemoryRequest& stage : demand.stages) add(master, stage.stage, stage.master, 1);
  for (const StageMemoryRequest& stage : demand.stages) add(copy, stage.stage, stage.copy, 1);
  add(copy, no_stage, demand.shared_copy, 1);
  for (const std::size_t bytes : demand.gathered) add(gathered, no_stage, bytes, 1);
  for (const StageMemoryRequest& stage : demand.stages) {
    const std::size_t states = demand.training ? stage.state : 0;
    demand.states_on_host ? add_readable(state, stage.stage, states, 1) : add(state, stage.stage, states, 1);
    if (demand.training) add(accumulator, stage.stage, stage.accumulator, demand.accumulators);
    if (demand.training) add(expert_accumulator, stage.stage, stage.expert_accumulator, demand.expert_accumulators);
    if (demand.staging) add_readable(staging, stage.stage, stage.staged + states, 1);
    // A few numbers, which kernels write where the host can read them.
    if (demand.training) add_readable(square, stage.stage, stage.square, 1);
  }
}

void RankMemoryPlan::add(MemoryKind kind, StageId stage, std::size_t slot_bytes, int slots, int channel) {
  if (slot_bytes == 0 || slots <= 0) return;
  const auto space = on_device_ ? kernels::MemorySpace::device : kernels::MemorySpace::host;
  sections_.push_back({kind, stage, channel, total_, kernels::align_up(slot_bytes), slots, space});
  total_ += sections_.back().bytes();
}

void RankMemoryPlan::add_pinned(MemoryKind kind, StageId stage, std::size_t slot_bytes, int slots, int channel) {
  if (!on_device_ || slot_bytes == 0 || slots <= 0) return;
  sections_.push_back({kind, stage, channel, pinned_, kernels::align_up(slot_bytes), slots, kernels::MemorySpace::pinned_host});
  pinned_ += sections_.back().bytes();
}

void RankMemoryPlan::add_readable(MemoryKind kind, StageId stage, std::size_t slot_bytes, int slots) {
  on_device_ ? add_pinned(kind, stage, slot_bytes, slots) : add(kind, stage, slot_bytes, slots);
}

const MemorySection* RankMemoryPlan::find(MemoryKind kind, StageId stage) const noexcept {
  for (const MemorySection& section : sections_) {
    if (section.kind == kind && section.stage == stage) return &section;
  }
  return nullptr;
}

const MemorySection* RankMemoryPlan::find_ring(int channel, MemoryKind kind) const noexcept {
  for (const MemorySection& section : sections_) {
    if (section.kind == kind && section.channel == channel) return &section;
  }
  return nullptr;
}

std::size_t RankMemoryPlan::bytes(MemoryKind kind) const noexcept {
  std::size_t sum = 0;
  for (const MemorySection& section : sections_) sum += section.kind == kind ? section.bytes() : 0;
  return sum;
}

std::string RankMemoryPlan::print() const {
  std::string text = fmt::format("{:<14} {:>6} {:>6} {:>16} {:>16}\n", "region", "of", "slots", "bytes of a slot", "bytes");
  for (const MemorySection& section : sections_) {
    const std::string stage = section.channel >= 0        ? fmt::format("ch {}", section.channel)
                              : section.stage == no_stage ? "rank"
                                                          : fmt::format("st {}", section.stage);
    text += fmt::format("{:<14} {:>6} {:>6} {:>16} {:>16}\n", to_string(section.kind), stage, section.slots, section.slot_bytes,
                        section.bytes());
  }
  text += fmt::format("{:<14} {:>6} {:>6} {:>16} {:>16}\n", "total", "", "", "", total_);
  if (on_device_) text += fmt::format("{:<14} {:>6} {:>6} {:>16} {:>16}\n", "host, pinned", "", "", "", pinned_);
  return text;
}

std::string RankMemoryPlan::needs() const {
  std::map<int, std::size_t> stages;
  std::size_t rank = 0;
  for (const MemorySection& section : sections_) {
    if (section.space != kernels::MemorySpace::pinned_host)
      (section.stage == no_stage ? rank : stages[section.stage.value]) += section.bytes();
  }
  const auto text = [](std::size_t bytes) {
    const auto value = static_cast<double>(bytes);
    return bytes >= std::size_t{1} << 30 ? fmt::format("{:.2f} GiB", value * 0x1p-30) : fmt::format("{:.1f} MiB", value * 0x1p-20);
  };
  std::string all;
  for (const auto& [stage, bytes] : stages) all += fmt::format("stage {}: {}, ", stage, text(bytes));
  all += fmt::format("workspace, batches and rings: {}", text(rank));
  return pinned_ == 0 ? all : fmt::format("{}; of the host, pinned: {}", all, text(pinned_));
}

namespace {

kernels::MemorySpace computing_space(kernels::Device device) {
  return kernels::device_type(device).facts().host_readable ? kernels::MemorySpace::host : kernels::MemorySpace::device;
}

/// The kind of the host's twin of slots of this kind. Kinds without a twin are not accessed by the host, or lie in its memory anyway.
std::optional<MemoryKind> twin_of(MemoryKind kind) noexcept {
  switch (kind) {
    case MemoryKind::batch:
      return MemoryKind::batch_copy;
    case MemoryKind::scalar:
      return MemoryKind::scalar_copy;
    case MemoryKind::result:
      return MemoryKind::result_copy;
    case MemoryKind::logits:
      return MemoryKind::logits_copy;
    default:
      return std::nullopt;
  }
}

kernels::Buffer make_arena(const RankMemoryPlan& plan, std::size_t bytes, kernels::Device device, kernels::MemorySpace space) {
  try {
    return kernels::Buffer(bytes, device, space);
  } catch (const Error& error) {
    if (error.code() != ExitCode::memory) throw;
    throw Error(ExitCode::memory, fmt::format("{}; the plan needs {}", error.what(), plan.needs()));
  }
}

}  // namespace

RankMemory::RankMemory(RankMemoryPlan plan, kernels::Device device)
    : plan_(std::move(plan)), device_(device), buffer_(make_arena(plan_, plan_.total_bytes(), device, computing_space(device))) {
  if (plan_.pinned_bytes() > 0) pinned_ = make_arena(plan_, plan_.pinned_bytes(), device, kernels::MemorySpace::pinned_host);
}

std::byte* RankMemory::region(MemoryKind kind) const noexcept {
  const auto& sections = plan_.sections();
  auto first = std::ranges::find(sections, kind, &MemorySection::kind);
  if (kind == MemoryKind::copy && first == sections.end()) first = std::ranges::find(sections, MemoryKind::gathered, &MemorySection::kind);
  return first == sections.end() ? nullptr : arena(*first).data() + first->offset;
}

std::byte* RankMemory::slot_or_null(MemoryKind kind, StageId stage, int index) const noexcept {
  const MemorySection* section = plan_.find(kind, stage);
  if (section == nullptr || index < 0 || index >= section->slots) return nullptr;
  return arena(*section).data() + section->offset + section->slot_bytes * static_cast<std::size_t>(index);
}

const MemorySection* RankMemory::twin(MemoryKind kind, StageId stage) const noexcept {
  const auto twin = twin_of(kind);
  return twin ? plan_.find(*twin, stage) : nullptr;
}

std::byte* RankMemory::host_slot(MemoryKind kind, StageId stage, int index) const {
  return slot(twin(kind, stage) != nullptr ? *twin_of(kind) : kind, stage, index);
}

std::byte* RankMemory::working_slot(MemoryKind kind, StageId stage, int index) const noexcept {
  const MemorySection* section = plan_.find(kind, stage);
  return slot_or_null(kind, stage, section != nullptr && twin(kind, stage) != nullptr ? index % section->slots : index);
}

void RankMemory::copy_to_host(kernels::DeviceContext& device, kernels::StreamKind stream, MemoryKind kind, StageId stage, int index) const {
  if (const MemorySection* host = twin(kind, stage))
    device.copy(stream, host_slot(kind, stage, index), working_slot(kind, stage, index), host->slot_bytes);
}

void RankMemory::copy_part_to_host(kernels::DeviceContext& device, kernels::StreamKind stream, MemoryKind kind, StageId stage, int index,
                                   std::size_t offset, std::size_t bytes) const {
  if (twin(kind, stage) != nullptr)
    device.copy(stream, host_slot(kind, stage, index) + offset, working_slot(kind, stage, index) + offset, bytes);
}

void RankMemory::copy_to_device(kernels::DeviceContext& device, kernels::StreamKind stream, MemoryKind kind, StageId stage,
                                int index) const {
  if (const MemorySection* host = twin(kind, stage))
    device.copy(stream, working_slot(kind, stage, index), host_slot(kind, stage, index), host->slot_bytes);
}

std::span<std::byte> RankMemory::ring(int channel) const {
  const MemorySection* section = plan_.find_ring(channel);
  MILLRACE_CHECK(section != nullptr, ExitCode::internal, "runtime.rank_memory", "no ring of channel {} in the plan", channel);
  return buffer_.bytes().subspan(section->offset, section->slot_bytes);
}

std::span<std::byte> RankMemory::link_ring(int channel) const {
  const MemorySection* copy = plan_.find_ring(channel, MemoryKind::ring_copy);
  return copy == nullptr ? ring(channel) : pinned_.bytes().subspan(copy->offset, copy->slot_bytes);
}

std::byte* RankMemory::slot(MemoryKind kind, StageId stage, int index) const {
  std::byte* place = slot_or_null(kind, stage, index);
  MILLRACE_CHECK(place != nullptr, ExitCode::internal, "runtime.rank_memory", "no slot {} of {} for stage {} in the plan", index,
                 to_string(kind), stage);
  return place;
}

}  // namespace millrace::runtime
