#include "runtime/schedule/simulator/memory_peak.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

class Walk {
 public:
  Walk(const Schedule& schedule, RankId rank, const std::vector<StageBytes>& bytes)
      : list_(schedule.ranks.at(rank.index())), placement_(schedule.placement), bytes_(bytes), evaluation_(schedule.forward_only()) {
    for (const StageId stage : placement_.stages_of(rank)) {
      held_.emplace_back().stage = stage;
      fixed_ += bytes[stage.index()].fixed;
    }
    peak_.stages = held_;
    peak_.fixed = peak_.bytes = fixed_;
  }

  MemoryPeak run() {
    for (std::size_t index = 0; index < list_.size();) {
      const std::size_t size = list_[index].overlaps_next && index + 1 < list_.size() ? 2 : 1;
      std::int64_t workspace = 0;
      for (std::size_t half = index; half < index + size; ++half) {
        take(list_[half]);
        workspace += bytes_[list_[half].stage.index()].workspace[static_cast<std::size_t>(list_[half].kind)];
      }
      note(index, workspace);
      for (std::size_t half = index; half < index + size; ++half) give_back(list_[half]);
      index += size;
    }
    return peak_;
  }

 private:
  MemoryPeak::Stage& stage(const Action& action) { return held_[static_cast<std::size_t>(placement_.chunk_of(action.stage))]; }

  void take(const Action& action) {
    if (action.kind == ActionKind::forward) ++stage(action).whole;
  }

  void give_back(const Action& action) {
    MemoryPeak::Stage& held = stage(action);
    if (action.kind == ActionKind::weight_gradient) {
      --held.weight_only;
    } else if (action.kind != ActionKind::forward || evaluation_) {
      --held.whole;
      held.weight_only += action.kind == ActionKind::input_gradient;
    }
  }

  void note(std::size_t index, std::int64_t workspace) {
    std::int64_t sum = fixed_ + workspace;
    for (MemoryPeak::Stage& held : held_) {
      const StageBytes& bytes = bytes_[held.stage.index()];
      held.bytes = held.whole * bytes.held + held.weight_only * bytes.held_weight;
      sum += held.bytes;
    }
    if (peak_.action >= 0 && sum <= peak_.bytes) return;
    peak_ = {sum, static_cast<int>(index), held_, fixed_, workspace};
  }

  const std::vector<Action>& list_;
  const Placement& placement_;
  const std::vector<StageBytes>& bytes_;
  bool evaluation_;
  std::int64_t fixed_ = 0;
  std::vector<MemoryPeak::Stage> held_;  // by chunk of the rank
  MemoryPeak peak_;
};

}  // namespace

MemoryPeak memory_peak(const Schedule& schedule, RankId rank, const std::vector<StageBytes>& bytes) {
  MILLRACE_CHECK(static_cast<int>(bytes.size()) == schedule.placement.stages(), ExitCode::internal, "runtime.schedule",
                 "bytes of {} stages, expected {}", bytes.size(), schedule.placement.stages());
  return Walk(schedule, rank, bytes).run();
}

std::string to_string(const MemoryPeak& peak, const Schedule& schedule, RankId rank) {
  std::string text = fmt::format("rank {}: {} B", rank, peak.bytes);
  if (peak.action >= 0)
    text += fmt::format(" at {} (action {})", schedule.ranks[rank.index()][static_cast<std::size_t>(peak.action)], peak.action);
  text += fmt::format(": fixed {} B, workspace {} B", peak.fixed, peak.workspace);
  for (const MemoryPeak::Stage& stage : peak.stages) {
    text += fmt::format(", stage {} {} B ({} microbatches", stage.stage, stage.bytes, stage.whole);
    text += stage.weight_only > 0 ? fmt::format(" and {} that await W)", stage.weight_only) : ")";
  }
  return text;
}

double microbatches_held(const Schedule& schedule, RankId rank) {
  int held = 0;
  int peak = 0;
  for (const Action& action : schedule.ranks.at(rank.index())) {
    if (action.kind == ActionKind::forward) peak = std::max(peak, ++held);
    if (ends_microbatch(action.kind)) --held;
  }
  const Placement& placement = schedule.placement;
  return static_cast<double>(peak) * placement.directions() / static_cast<double>(placement.stages_of(rank).size());
}

}  // namespace millrace::runtime
