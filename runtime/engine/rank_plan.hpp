#pragma once

#include <optional>
#include <vector>

#include "runtime/schedule/ledger.hpp"
#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/stage_shape.hpp"

namespace millrace::runtime {

/// The k-th boundary of an edge within one list; absent if edge is no_edge.
struct BoundaryUse {
  EdgeId edge = no_edge;
  int ordinal = 0;
  [[nodiscard]] bool present() const { return edge != no_edge; }
};

/// An action, or one segment of an action with exchanges, with everything that can be looked up before the run. All segments of an action
/// have the same boundaries and slots: what is read is there before the first, what is written is complete after the last.
struct PlannedEntry {
  Action action;
  int segment = 0, segments = 1;
  int strand = 0;          // 1: runs beside another action, woven with it, and has a workspace of its own
  int first_exchange = 0;  // in the list: the number of exchanges that earlier entries post
  int posts = 0;           // the exchanges that the entry posts
  int awaits = -1;         // the exchange, counted over the list, whose rows must be in before the entry begins; -1: none
  BoundaryUse activation;  // read: the output of the previous stage (by F, and again by its I, W, B: the ring slot is the saved input)
  BoundaryUse gradient;    // read: the gradient from the next stage (by I, B, and again by W)
  BoundaryUse output;      // written: an activation by F, a gradient by I and B
  bool last_use = false;   // the slots of activation and gradient are free after the action
  int stash_input = -1;    // slots of the stage's stashes, -1 if the action has none
  int stash_weight = -1;
  int handoff = -1;
  int leaf = -1;  // of an action that makes gradients of weights: the number of those before it in the list
  [[nodiscard]] bool begins_action() const { return segment == 0; }
  [[nodiscard]] bool ends_action() const { return segment + 1 == segments; }
};

/// An exchange of a list: the action that posts it, and its number among those of the action.
struct PlannedExchange {
  Action action;
  int number = 0;
};

/// One rank's list of one schedule, resolved once and then run any number of times.
struct RankPlan {
  RankId rank;
  int microbatches = 0;
  bool forward_only = false;
  std::vector<PlannedEntry> entries = {};
  std::vector<PlannedExchange> exchanges = {};  // in the order in which the list posts them
  /// By stage: the last action that adds to its gradient sums; nothing for stages of other ranks and without gradients.
  std::vector<std::optional<Action>> last_gradients = {};
  RankMicrobatches own = {};  // of the step's microbatches, those of the rank
  int own_microbatches = 0;   // how many these are
};

/// Resolves the list of `rank`. The segments of an overlapped pair, of which one has exchanges, are woven (runtime/schedule/weave.hpp).
/// `slots`, by StageId, are those of the memory plan: the training schedule's ledger, also for a forward-only schedule, whose forwards then
/// use the same stashes one after another. `shapes`, by StageId: the segments of actions; empty: every action is one.
[[nodiscard]] RankPlan make_rank_plan(const Schedule& schedule, RankId rank, const std::vector<StashSlots>& slots,
                                      const std::vector<StageShape>& shapes = {});

/// The lists of ranks that share experts must have the same actions, each of its own copy, in the same segments and with the same
/// exchanges: then all members are free of deadlock if one is, and every member's n-th exchange is the same. Error(internal) naming two
/// lists that differ, and where.
void check_members(const std::vector<const RankPlan*>& members);

}  // namespace millrace::runtime
