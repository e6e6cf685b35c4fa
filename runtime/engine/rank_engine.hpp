#pragma once

#include <cstdint>
#include <vector>

#include "runtime/engine/rank_plan.hpp"
#include "runtime/engine/wait.hpp"
#include "runtime/schedule/edge.hpp"

namespace millrace::runtime {

/// One slot of one edge's ring: boundary `sequence` of the run is in slot sequence mod depth.
struct RingSlot {
  EdgeId edge = no_edge;
  std::int64_t sequence = -1;
  std::int32_t slot = -1;
  [[nodiscard]] bool present() const { return edge != no_edge; }
};

/// Give this action to the rank's compute worker, which runs actions in the order given.
struct Issue {
  StepId step;
  std::int32_t index = 0;  // in the list
  Action action;
  std::int32_t stash_input = -1, stash_weight = -1, handoff = -1;  // slots, -1: none
  RingSlot activation, gradient;                                   // to be read
  RingSlot output;                                                 // to be written
};

/// What the caller must do after an event, in this order. Valid until the next event.
struct Decisions {
  std::vector<RingSlot> sends;     // written and complete: send it to the edge's consumer
  std::vector<RingSlot> releases;  // read for the last time: the producer may reuse the slot. In sequence order for each edge
  std::vector<Issue> issues;       // start these actions
  bool finished = false;           // the list is finished, and none of its actions is running
};

/// Decides what one rank may run next: a state machine without threads, clocks or buffers. Events in, decisions out.
///
/// The list is issued strictly in order. The next action is issued when its inputs and its batch are available, its output ring
/// has a free slot and fewer than `issue_ahead` actions are unfinished. Sequence numbers continue over lists, training or
/// forward-only, so rings are never reset. An edge between two stages of this rank is a hand-off through the same kind of ring:
/// its boundaries and slots count from the moment of issue, because the worker runs in order, and cause no sends or releases.
///
/// An impossible event (a boundary out of order, an unknown edge, a slot freed twice, an action other than the oldest issued one)
/// throws Error(internal) with the event. One caller at a time. Events allocate nothing, except for the first list with more
/// microbatches than before.
class RankEngine {
 public:
  struct Options {
    RankId rank;
    std::vector<Edge> edges;  // edges_of(placement)
    std::vector<int> depths;  // by EdgeId: Ledger::depths, or more
    int issue_ahead = 2;
  };
  explicit RankEngine(Options options);

  // -- events ------------------------------------------------------------------------------------------------------------
  /// Begins a list; the previous one must have finished. `plan` must outlive it. Arrivals and credits may come before the list
  /// that they belong to.
  const Decisions& start(const RankPlan& plan, StepId step);
  /// Boundary `sequence` is in its slot of the edge's ring.
  const Decisions& boundary_arrived(EdgeId edge, std::int64_t sequence);
  /// The slot of boundary `sequence` of an outgoing edge may be written again. Credits of one edge may come in any order.
  const Decisions& credit_returned(EdgeId edge, std::int64_t sequence);
  /// The batch of this microbatch of the running list is in memory.
  const Decisions& batch_ready(MicrobatchId microbatch);
  /// The oldest issued action is done.
  const Decisions& action_finished(const Action& action);

  // -- state -------------------------------------------------------------------------------------------------------------
  /// What prevents the next action from being issued; `compute` as long as an action is running.
  [[nodiscard]] Wait wait() const;
  [[nodiscard]] bool running() const { return plan_ != nullptr; }
  [[nodiscard]] int issued() const { return issued_; }      // number of the list's actions that were given to the worker
  [[nodiscard]] int finished() const { return finished_; }  // number of those that are done
  /// An edge's ring from this rank's point of view, for display.
  struct Ring {
    int depth = 0;
    int tokens = 0;  // if the edge ends here: boundaries that have arrived and whose slots are not freed
    int taken = 0;   // if it begins here: slots with a boundary that was not released
  };
  [[nodiscard]] Ring ring(EdgeId edge) const;

 private:
  struct Channel {
    Edge edge;
    std::int64_t depth = 1;
    std::int64_t base = 0;             // sequence number of the running list's first boundary
    std::int64_t arrived = 0;          // incoming: number of arrived boundaries; local: number of issued ones
    std::int64_t produced = 0;         // outgoing: number of issued boundaries
    std::int64_t released = 0;         // incoming, local: all slots below this sequence number are freed
    std::vector<std::uint8_t> over;    // incoming, local, by slot: the last use is over, but the slot is not freed yet
    std::vector<std::int64_t> holder;  // outgoing, by slot: the boundary in it, -1: free
  };

  Channel& incoming(EdgeId edge, std::int64_t sequence, const char* event);
  Channel& outgoing(EdgeId edge, std::int64_t sequence, const char* event);
  [[nodiscard]] RingSlot slot_of(const BoundaryUse& use) const;
  [[nodiscard]] WaitReason missing(const PlannedAction& planned) const;
  void issue(const PlannedAction& planned);
  void release(const BoundaryUse& use);
  void clear_decisions();
  const Decisions& advance();
  void finish_list();

  RankId rank_;
  int issue_ahead_;
  std::vector<Channel> channels_;  // by EdgeId
  const RankPlan* plan_ = nullptr;
  StepId step_ = no_step;
  int issued_ = 0;
  int finished_ = 0;
  std::vector<std::uint8_t> batches_;  // by microbatch of the running list
  Decisions decisions_;
};

}  // namespace millrace::runtime
