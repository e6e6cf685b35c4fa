#pragma once

#include <vector>

#include "runtime/schedule/ledger.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// The k-th boundary of an edge within one list; absent if edge is no_edge.
struct BoundaryUse {
  EdgeId edge = no_edge;
  int ordinal = 0;
  [[nodiscard]] bool present() const { return edge != no_edge; }
};

/// An action with everything that can be looked up before the run.
struct PlannedAction {
  Action action;
  BoundaryUse activation;  // read: the output of the previous stage (by F, and again by its I, W, B: the ring slot is the saved input)
  BoundaryUse gradient;    // read: the gradient from the next stage (by I, B, and again by W)
  BoundaryUse output;      // written: an activation by F, a gradient by I and B
  bool last_use = false;   // the slots of activation and gradient are free afterwards
  int stash_input = -1;    // slots of the stage's stashes, -1 if the action has none
  int stash_weight = -1;
  int handoff = -1;
};

/// One rank's list of one schedule, resolved once and then run any number of times.
struct RankPlan {
  RankId rank;
  int microbatches = 0;
  bool forward_only = false;
  std::vector<PlannedAction> actions;
};

/// Resolves the list of `rank`. `slots`, by StageId, are those of the memory plan: the training schedule's ledger, also for a
/// forward-only schedule, whose forwards then use the same stashes one after another.
[[nodiscard]] RankPlan make_rank_plan(const Schedule& schedule, RankId rank, const std::vector<StashSlots>& slots);

}  // namespace millrace::runtime
