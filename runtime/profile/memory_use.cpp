#include "runtime/profile/memory_use.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "kernels/base/buffer.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"

namespace millrace::runtime {
namespace {

bool comes_and_goes(MemoryKind kind) {
  return kind == MemoryKind::stash_input || kind == MemoryKind::stash_weight || kind == MemoryKind::handoff ||
         kind == MemoryKind::workspace;
}

std::int64_t sum(const std::vector<NamedBytes>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0}, [](auto total, const auto& part) { return total + part.second; });
}

/// The name of a value without its layer: its label, or its name without "layers.3.".
std::string label_of(const Value& value) {
  if (!value.labels.empty()) return value.labels.front();
  const auto prefix = fmt::format("layers.{}.", value.layer);
  return value.name.starts_with(prefix) ? value.name.substr(prefix.size()) : value.name;
}

/// The sizes of the values of one region, grouped by label.
std::vector<NamedBytes> by_label(const Stage& stage, Region region) {
  std::map<std::string, std::int64_t> bytes;
  const auto& programs = stage.programs();
  for (std::size_t index = 0; index < programs.values.size(); ++index) {
    const Value& value = programs.values[index];
    if (value.role != Role::intermediate || stage.plan().placements[index].region != region) continue;
    bytes[label_of(value)] += static_cast<std::int64_t>(kernels::align_up(bytes_of(value.type)));
  }
  return {bytes.begin(), bytes.end()};
}

StageMemory memory_of(const Stage& stage) {
  StageMemory memory;
  memory.stage = stage.stage();
  memory.stash_input = by_label(stage, Region::stash_input);
  memory.stash_weight = by_label(stage, Region::stash_weight);
  memory.handoff = by_label(stage, Region::handoff);
  for (const ActionKind kind : all_action_kinds)
    memory.workspace[static_cast<std::size_t>(kind)] =
        static_cast<std::int64_t>(stage.plan().workspace_bytes[static_cast<std::size_t>(program_of(pass_of(kind)))]);
  return memory;
}

/// The number of microbatches that hold each region of a stage.
struct Held {
  int input = 0, weight = 0, handoff = 0;
};

class Walk {
 public:
  explicit Walk(const MemoryOfRank& memory) : memory_(memory), held_(memory.stages.size()), fixed_(sum(memory.fixed)) {
    for (const StageMemory& stage : memory.stages) slot_.push_back({sum(stage.stash_input), sum(stage.stash_weight), sum(stage.handoff)});
  }

  void action(const Action& action, const TraceRecord& record) {
    const std::size_t stage = place(action.stage);
    Held& held = held_[stage];
    if (action.kind == ActionKind::forward) ++held.input, ++held.weight;
    if (action.kind == ActionKind::input_gradient) ++held.handoff;
    note(record.begin, memory_.stages[stage].workspace[static_cast<std::size_t>(action.kind)], stage);
    if (makes_gradient(action.kind)) --held.input;
    if (ends_microbatch(action.kind)) --held.weight;
    if (action.kind == ActionKind::weight_gradient) --held.handoff;
    note(record.end, 0, stage);
  }

  MemoryUse take() {
    name_peak();
    return std::move(use_);
  }

 private:
  std::size_t place(StageId stage) const {
    for (std::size_t at = 0; at < memory_.stages.size(); ++at)
      if (memory_.stages[at].stage == stage) return at;
    fail(ExitCode::internal, "runtime.profile", "an action of stage {}, which the rank does not have", stage);
  }

  void note(std::int64_t time, std::int64_t workspace, std::size_t stage) {
    std::int64_t bytes = fixed_ + workspace;
    for (std::size_t at = 0; at < held_.size(); ++at)
      bytes += held_[at].input * slot_[at][0] + held_[at].weight * slot_[at][1] + held_[at].handoff * slot_[at][2];
    use_.alive.emplace_back(time, bytes);
    if (bytes <= use_.peak) return;
    use_.peak = bytes;
    use_.peak_time = time;
    peak_ = held_;
    peak_workspace_ = workspace;
    peak_stage_ = stage;
  }

  void name_peak() {
    auto& parts = use_.at_peak;
    parts = memory_.fixed;
    if (peak_workspace_ > 0) parts.emplace_back(fmt::format("workspace of stage {}", memory_.stages[peak_stage_].stage), peak_workspace_);
    for (std::size_t at = 0; at < peak_.size(); ++at) {
      const StageMemory& stage = memory_.stages[at];
      add(stage.stage, "F to I", stage.stash_input, peak_[at].input);
      add(stage.stage, "F to W", stage.stash_weight, peak_[at].weight);
      add(stage.stage, "I to W", stage.handoff, peak_[at].handoff);
    }
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  }

  void add(StageId stage, const char* life, const std::vector<NamedBytes>& labels, int held) {
    if (held == 0) return;
    for (const auto& [label, bytes] : labels)
      use_.at_peak.emplace_back(fmt::format("{} of {}, stage {}, {}", label, counted(held, "microbatch"), stage, life), held * bytes);
  }

  const MemoryOfRank& memory_;
  std::vector<Held> held_, peak_;
  std::int64_t fixed_;
  std::vector<std::array<std::int64_t, 3>> slot_;
  std::int64_t peak_workspace_ = 0;
  std::size_t peak_stage_ = 0;
  MemoryUse use_;
};

}  // namespace

MemoryOfRank memory_of(const RankCompute& compute) {
  MemoryOfRank memory;
  const RankMemoryPlan& plan = compute.memory_plan();
  memory.planned = static_cast<std::int64_t>(plan.total_bytes());
  for (std::size_t index = 0; index < memory_kind_count; ++index) {
    const auto kind = static_cast<MemoryKind>(index);
    std::int64_t bytes = 0;  // bytes of the compute arena: a GPU rank's host memory does not count towards its peak
    for (const MemorySection& section : plan.sections())
      if (section.kind == kind && section.space != kernels::MemorySpace::pinned_host) bytes += static_cast<std::int64_t>(section.bytes());
    if (bytes == 0) continue;
    memory.sections.emplace_back(to_string(kind), bytes);
    if (!comes_and_goes(kind)) memory.fixed.emplace_back(to_string(kind), bytes);
  }
  for (const auto& stage : compute.stages()) memory.stages.push_back(memory_of(*stage));
  return memory;
}

MemoryUse memory_use(const MemoryOfRank& memory, const std::vector<Action>& list, const std::vector<TraceRecord>& actions) {
  Walk walk(memory);
  for (std::size_t index = 0; index < list.size(); ++index) walk.action(list[index], actions.at(index));
  return walk.take();
}

}  // namespace millrace::runtime
