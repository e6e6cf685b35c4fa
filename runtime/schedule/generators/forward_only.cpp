// Forwards only, for evaluation.
//
// On a loop placement the microbatches go in groups of P, each group through all chunks of a rank before the next group starts
// (the forward order of interleaved schedules, Narayanan et al. 2021, arXiv 2104.04473):
//
//     r0|F0F1F2F3f0f1f2f3F4F5F6F7f4f5f6f7. . . |
//     r1|. F0F1F2F3f0f1f2f3F4F5F6F7f4f5f6f7. . |
//     r2|. . F0F1F2F3f0f1f2f3F4F5F6F7f4f5f6f7. |
//     r3|. . . F0F1F2F3f0f1f2f3F4F5F6F7f4f5f6f7|
//
// On any other placement the lists come from a greedy execution with equal stages and one slot per edge: a rank takes the deepest
// stage that has an input and room for its output.
//
// Both complete with one slot per edge, whatever the timing: the P edges of a loop hold the P microbatches of a group, and the
// greedy lists come from such an execution (in-order ranks with bounded FIFO channels form a marked graph: whether they complete
// does not depend on durations). This is needed because an evaluation sends any number of microbatches through rings that were
// sized for the training schedule; breadth-first lists would fill the ring between the last rank and the first, and deadlock.

#include <algorithm>

#include "kernels/base/check.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {
namespace {

// Progress of the greedy execution: how many microbatches each stage has started and finished.
struct Progress {
  std::vector<int> started;
  std::vector<int> finished;
};

// A stage may start its next microbatch when the previous stage has finished it and the next stage has freed the slot.
bool ready(const Schedule& schedule, const Progress& progress, StageId stage) {
  const int m = progress.started[stage.index()];
  if (m == schedule.microbatches_of(stage)) return false;
  const auto previous = schedule.placement.previous(stage);
  const auto next = schedule.placement.next(stage);
  return (!previous || progress.finished[previous->index()] > m) && (!next || progress.finished[next->index()] >= m);
}

// One round is one unit of time: every rank starts at most one action, and all started actions finish together.
void fill_greedily(Schedule& schedule) {
  const Placement& placement = schedule.placement;
  const auto stages = static_cast<std::size_t>(placement.stages());
  Progress progress{std::vector<int>(stages, 0), std::vector<int>(stages, 0)};
  for (bool working = true; working;) {
    working = false;
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      const auto& own = placement.stages_of(RankId{rank});
      const auto deepest = std::find_if(own.rbegin(), own.rend(), [&](StageId stage) { return ready(schedule, progress, stage); });
      if (deepest == own.rend()) continue;
      const MicrobatchId m = schedule.microbatch_of(*deepest, progress.started[deepest->index()]++);
      schedule.ranks[static_cast<std::size_t>(rank)].push_back({*deepest, ActionKind::forward, m});
      working = true;
    }
    progress.finished = progress.started;
  }
}

void fill_in_groups(Schedule& schedule) {
  const int group = schedule.placement.ranks() / schedule.placement.replicas();
  for (int rank = 0; rank < schedule.placement.ranks(); ++rank) {
    const auto& stages = schedule.placement.stages_of(RankId{rank});
    const int all = schedule.microbatches_of(stages.front());  // of a loop's rank, all stages belong to one copy
    for (int first = 0; first < all; first += group) {
      for (StageId stage : stages) {
        for (int k = first; k < std::min(first + group, all); ++k) {
          schedule.ranks[static_cast<std::size_t>(rank)].push_back({stage, ActionKind::forward, schedule.microbatch_of(stage, k)});
        }
      }
    }
  }
}

}  // namespace

Schedule forward_only(const Placement& placement, int microbatches) {
  MILLRACE_CHECK(microbatches >= 1, ExitCode::config, "runtime.schedule", "a forward-only schedule of {} microbatches, expected 1 or more",
                 microbatches);
  Schedule schedule{"forward-only", placement, microbatches, std::vector<std::vector<Action>>(static_cast<std::size_t>(placement.ranks()))};
  placement.name() == "loop" ? fill_in_groups(schedule) : fill_greedily(schedule);
  return schedule;
}

}  // namespace millrace::runtime
