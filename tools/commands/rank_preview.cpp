#include "tools/commands/rank_preview.hpp"

#include <fmt/format.h>

#include <array>

#include "runtime/units.hpp"

namespace millrace::tools {

RankPreview::RankPreview(const actors::PipelinePlan& plan, runtime::RankId rank, const actors::RankResources& needs)
    : rank_(rank), compute_(actors::RankBlueprint(plan, rank, needs).build(true)) {}

std::size_t RankPreview::parameters() const noexcept {
  std::size_t elements = 0;
  for (const auto* stage : compute_->stages())
    for (const auto& tensor : stage->shard_layout().tensors) elements += tensor.elements();
  return elements;
}

std::size_t RankPreview::shard_bytes(runtime::StageId stage) const noexcept {
  using enum runtime::MemoryKind;
  constexpr std::array kinds{master, copy, state, accumulator, expert_accumulator, staging, square};
  std::size_t bytes = 0;
  for (const auto kind : kinds)
    if (const auto* section = memory().find(kind, stage)) bytes += section->bytes();
  return bytes;
}

std::string RankPreview::print() const {
  return memory().print() + fmt::format("peak of rank {}: {} bytes ({})\n", rank_, peak_bytes(), runtime::bytes_text(peak_bytes()));
}

}  // namespace millrace::tools
