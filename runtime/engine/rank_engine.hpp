#pragma once

#include <cstdint>
#include <vector>

#include "runtime/engine/rank_plan.hpp"
#include "runtime/engine/wait.hpp"
#include "runtime/schedule/edge.hpp"

namespace millrace::runtime {

/// One slot of one edge's ring: token `sequence` of the run lies in slot sequence mod depth.
struct RingSlot {
  EdgeId edge = no_edge;
  std::int64_t sequence = -1;
  std::int32_t slot = -1;
  [[nodiscard]] bool present() const { return edge != no_edge; }
};

/// Hand this action to the rank's compute worker, which runs what it gets in order.
struct Issue {
  StepId step;
  std::int32_t index = 0;  // in the list
  Action action;
  std::int32_t stash_input = -1, stash_weight = -1, handoff = -1;  // slots, -1: none
  RingSlot activation, gradient;                                   // to read
  RingSlot output;                                                 // to write
};

/// What the shell must do after an event, in this order. Valid until the next event.
struct Decisions {
  std::vector<RingSlot> sends;     // written and finished: bring it to the edge's consumer
  std::vector<RingSlot> releases;  // read for the last time: the producer may have the slot again. In order of sequence, edge by edge
  std::vector<Issue> issues;       // start these
  bool finished = false;           // the list is done; nothing of it runs any more
};

/// Decides what one rank may run next: a state machine without threads, clocks or buffers. Events in, decisions out.
///
/// The list is issued strictly in order. The next action is issued when its tokens are there, its batch is there, its output ring has a
/// free slot and fewer than `issue_ahead` actions are unfinished. Sequence numbers go on over lists, training or forward-only, so rings are
/// never reset. An edge between two stages of this rank is a hand-off through the same kind of ring: its tokens and slots count from the
/// moment of issue, because the worker runs in order, and make no sends or releases.
///
/// An event that cannot be (a token out of order, an unknown edge, a slot given back twice, another action than the oldest issued one)
/// throws Error(internal) naming it. One caller at a time. Events allocate nothing, except for the first list with more microbatches than
/// before.
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
  /// Begins a list; the one before must have finished. `plan` must outlive it. Tokens and credits may come before the list they belong to.
  const Decisions& start(const RankPlan& plan, StepId step);
  /// Token `sequence` lies in its slot of the edge's ring.
  const Decisions& boundary_arrived(EdgeId edge, std::int64_t sequence);
  /// The slot of token `sequence` of an outgoing edge may be written again. Credits of one edge may come in any order.
  const Decisions& credit_returned(EdgeId edge, std::int64_t sequence);
  /// The batch of this microbatch of the running list is in memory.
  const Decisions& batch_ready(MicrobatchId microbatch);
  /// The oldest issued action is done.
  const Decisions& action_finished(const Action& action);

  // -- state -------------------------------------------------------------------------------------------------------------
  /// What keeps the next action from being issued; `compute` as long as something runs.
  [[nodiscard]] Wait wait() const;
  [[nodiscard]] bool running() const { return plan_ != nullptr; }
  [[nodiscard]] int issued() const { return issued_; }      // actions of the list handed to the worker
  [[nodiscard]] int finished() const { return finished_; }  // of those, done
  /// An edge's ring as this rank sees it, for people.
  struct Ring {
    int depth = 0;
    int tokens = 0;  // where the edge ends here: come, and their slots not given back
    int taken = 0;   // where it begins here: slots that hold a token which was not given back
  };
  [[nodiscard]] Ring ring(EdgeId edge) const;

 private:
  struct Channel {
    Edge edge;
    std::int64_t depth = 1;
    std::int64_t base = 0;             // sequence of the running list's first token
    std::int64_t arrived = 0;          // incoming: tokens that have come; local: tokens issued
    std::int64_t produced = 0;         // outgoing: tokens issued
    std::int64_t released = 0;         // incoming, local: slots given back, all below this sequence
    std::vector<std::uint8_t> over;    // incoming, local, by slot: last use is over, not yet given back
    std::vector<std::int64_t> holder;  // outgoing, by slot: the token in it, -1: free
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
