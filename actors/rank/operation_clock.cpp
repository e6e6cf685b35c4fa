#include "actors/rank/operation_clock.hpp"

#include <algorithm>
#include <thread>

namespace millrace::actors {

OperationClock::OperationClock(Rank& rank, std::int64_t first_step) : rank_(rank), first_step_(first_step) {
  std::size_t longest = 0;
  for (const auto& stage : rank.compute().stages()) {
    Programs programs;
    for (std::size_t kind = 0; kind < runtime::program_kind_count; ++kind) {
      programs[kind].resize(stage->programs().programs[kind].size());
      longest = std::max(longest, programs[kind].size());
    }
    stages_.push_back(std::move(programs));
  }
  rank.worker().run([&] {
    passes_.resize(max_issue_ahead + 2);
    for (Pass& pass : passes_)
      for (std::size_t i = 0; i < longest; ++i) {
        pass.begins.emplace_back(rank.context().device_context(), true);
        pass.ends.emplace_back(rank.context().device_context(), true);
      }
  });
}

/// Where the operation's time is added; null if it is not counted.
OperationClock::Sum* OperationClock::sums_of(const Call& call) {
  if (rank_.running().step < first_step_ || rank_.running().pass > runtime::Pass::backward) return nullptr;
  const auto chunk = static_cast<std::size_t>(rank_.plan().schedule.placement.chunk_of(rank_.running().action.stage));
  return stages_[chunk][static_cast<std::size_t>(call.kind)].data();
}

void OperationClock::before(const Call& call) {
  if (call.index == 0) {
    turn_ = (turn_ + 1) % passes_.size();
    collect(passes_[turn_]);
  }
  if (sums_of(call) != nullptr) passes_[turn_].begins[call.index].record(rank_.context().device_context(), kernels::StreamKind::compute);
}

void OperationClock::after(const Call& call) {
  Sum* sums = sums_of(call);
  if (sums == nullptr) return;
  Pass& pass = passes_[turn_];
  pass.ends[call.index].record(rank_.context().device_context(), kernels::StreamKind::compute);
  pass.sums = sums;
  pass.used = call.index + 1;
}

void OperationClock::collect(Pass& pass) {
  const auto nanoseconds = [](float milliseconds) { return static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6); };
  for (std::size_t i = 0; i < pass.used; ++i) {
    while (!pass.ends[i].complete()) std::this_thread::yield();
    ++pass.sums[i].count;
    pass.sums[i].nanoseconds += nanoseconds(pass.ends[i].since(pass.begins[i]));
    if (i > 0) launch_gaps_ += nanoseconds(pass.begins[i].since(pass.ends[i - 1]));
  }
  pass.used = 0;
}

void OperationClock::collect_all() {
  rank_.worker().run([this] {
    for (Pass& pass : passes_) collect(pass);
  });
}

std::int64_t OperationClock::launch_gaps() {
  collect_all();
  return launch_gaps_;
}

std::vector<OperationSum> OperationClock::sums() {
  collect_all();
  std::vector<OperationSum> all;
  for (std::size_t chunk = 0; chunk < stages_.size(); ++chunk) {
    const auto stage = rank_.plan().schedule.placement.stage_of(rank_.id(), static_cast<int>(chunk));
    for (std::size_t kind = 0; kind < runtime::program_kind_count; ++kind) {
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
