#include "runtime/engine/rank_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/check.hpp"

namespace millrace::runtime {

std::string_view to_string(MemoryKind kind) {
  static constexpr std::array<std::string_view, kMemoryKinds> names = {
      "master",    "copy",        "first_moment", "second_moment", "accumulator",  "staging", "workspace",
      "batch",     "scalar",      "constant",     "stash_input",   "stash_weight", "handoff", "token_in",
      "token_out", "gradient_in", "gradient_out", "result",        "logits",       "ring"};
  return names.at(static_cast<std::size_t>(kind));
}

RankMemoryPlan::RankMemoryPlan(const ParameterLayout& parameters, const RankDemand& demand) {
  using enum MemoryKind;
  const auto largest = [&](std::size_t StageDemand::*member) {
    std::size_t bytes = 0;
    for (const StageDemand& stage : demand.stages) bytes = std::max(bytes, stage.*member);
    return bytes;
  };
  add(master, no_stage, parameters.master_bytes(), 1);
  add(copy, no_stage, parameters.copy_bytes(), 1);
  if (demand.training) {
    add(first_moment, no_stage, parameters.master_bytes(), 1);
    add(second_moment, no_stage, parameters.master_bytes(), 1);
    add(accumulator, no_stage, parameters.accumulator_bytes(), demand.accumulators);
  }
  add(staging, no_stage, parameters.master_bytes(), demand.staging ? (demand.training ? 3 : 1) : 0);
  add(workspace, no_stage, largest(&StageDemand::workspace), 1);
  add(batch, no_stage, largest(&StageDemand::batch), demand.batches);
  add(scalar, no_stage, sizeof(float), 1);
  for (const StageDemand& stage : demand.stages) {
    add(constant, stage.stage, stage.constant, stage.constants);
    add(stash_input, stage.stage, stage.stash_input, stage.slots.stash_input);
    add(stash_weight, stage.stage, stage.stash_weight, stage.slots.stash_weight);
    add(handoff, stage.stage, stage.handoff, stage.slots.handoff);
    add(token_in, stage.stage, stage.token_in, stage.slots.token_in);
    add(token_out, stage.stage, stage.token_out, stage.slots.token_out);
    add(gradient_in, stage.stage, stage.gradient_in, stage.slots.gradient_in);
    add(gradient_out, stage.stage, stage.gradient_out, stage.slots.gradient_out);
    add(result, stage.stage, 2 * sizeof(double), stage.slots.results);
    add(logits, stage.stage, stage.logits, stage.logits > 0 ? 1 : 0);
  }
  for (const RingDemand& channel : demand.rings) add(ring, no_stage, channel.bytes, 1, channel.channel);
}

void RankMemoryPlan::add(MemoryKind kind, StageId stage, std::size_t slot_bytes, int slots, int channel) {
  if (slot_bytes == 0 || slots <= 0) return;
  sections_.push_back({kind, stage, channel, total_, kernels::align_up(slot_bytes), slots});
  total_ += sections_.back().bytes();
}

const MemorySection* RankMemoryPlan::find(MemoryKind kind, StageId stage) const noexcept {
  for (const MemorySection& section : sections_) {
    if (section.kind == kind && section.stage == stage) return &section;
  }
  return nullptr;
}

const MemorySection* RankMemoryPlan::find_ring(int channel) const noexcept {
  for (const MemorySection& section : sections_) {
    if (section.kind == MemoryKind::ring && section.channel == channel) return &section;
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
  return text + fmt::format("{:<14} {:>6} {:>6} {:>16} {:>16}\n", "total", "", "", "", total_);
}

RankMemory::RankMemory(RankMemoryPlan plan, kernels::Device device) : plan_(std::move(plan)), buffer_(plan_.total_bytes(), device) {}

std::byte* RankMemory::slot_or_null(MemoryKind kind, StageId stage, int index) const noexcept {
  const MemorySection* section = plan_.find(kind, stage);
  if (section == nullptr || index < 0 || index >= section->slots) return nullptr;
  return buffer_.data() + section->offset + section->slot_bytes * static_cast<std::size_t>(index);
}

std::span<std::byte> RankMemory::ring(int channel) const {
  const MemorySection* section = plan_.find_ring(channel);
  MILLRACE_CHECK(section != nullptr, ExitCode::internal, "runtime.rank_memory", "no ring of channel {} in the plan", channel);
  return buffer_.bytes().subspan(section->offset, section->slot_bytes);
}

std::byte* RankMemory::slot(MemoryKind kind, StageId stage, int index) const {
  std::byte* place = slot_or_null(kind, stage, index);
  MILLRACE_CHECK(place != nullptr, ExitCode::internal, "runtime.rank_memory", "no slot {} of {} for stage {} in the plan", index,
                 to_string(kind), stage);
  return place;
}

}  // namespace millrace::runtime
