#include "actors/operation_clock.hpp"

namespace millrace::actors {

OperationClock::OperationClock(const Rank& rank, std::int64_t first_step) : rank_(rank), first_step_(first_step) {
  for (const auto& stage : rank.compute().stages()) {
    Programs programs;
    for (std::size_t kind = 0; kind < runtime::kProgramKinds; ++kind) programs[kind].resize(stage->programs().programs[kind].size());
    stages_.push_back(std::move(programs));
  }
}

void OperationClock::before(const Call&) { begin_ = runtime::steady_now(); }

void OperationClock::after(const Call& call) {
  const std::int64_t now = runtime::steady_now();
  if (rank_.running_step < first_step_ || rank_.running_pass > runtime::Pass::backward) return;
  const auto chunk = static_cast<std::size_t>(rank_.plan().schedule.placement.chunk_of(rank_.running_action.stage));
  Sum& sum = stages_[chunk][static_cast<std::size_t>(call.kind)][call.index];
  ++sum.count;
  sum.nanoseconds += now - begin_;
}

std::vector<OperationSum> OperationClock::sums() const {
  std::vector<OperationSum> all;
  for (std::size_t chunk = 0; chunk < stages_.size(); ++chunk) {
    const auto stage = rank_.plan().schedule.placement.stage_of(rank_.id(), static_cast<int>(chunk));
    for (std::size_t kind = 0; kind < runtime::kProgramKinds; ++kind) {
      const auto& program = stages_[chunk][kind];
      for (std::size_t index = 0; index < program.size(); ++index) {
        if (program[index].count == 0) continue;
        all.push_back({stage.value, static_cast<runtime::ProgramKind>(kind), static_cast<std::int32_t>(index), program[index].count,
                       program[index].nanoseconds});
      }
    }
  }
  return all;
}

}  // namespace millrace::actors
