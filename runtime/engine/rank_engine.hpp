#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/engine/rank_plan.hpp"
#include "runtime/engine/residence.hpp"
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

/// Give this entry, an action or a segment of one, to the rank's compute worker, which runs entries in the order given.
struct Issue {
  StepId step;
  std::int32_t index = 0;  // in the list
  Action action;
  std::int32_t segment = 0, segments = 1;
  std::int32_t strand = 0;          // PlannedEntry::strand
  std::int64_t first_exchange = 0;  // the number of the first exchange that it posts, counted over the run
  std::int32_t posts = 0;
  std::int32_t stash_input = -1, stash_weight = -1, handoff = -1;  // slots, -1: none
  RingSlot activation, gradient;                                   // to be read
  RingSlot output;                                                 // to be written
};

/// What the caller must do after an event, in this order. Valid until the next event.
struct Decisions {
  std::vector<RingSlot> sends;     // written and complete: send it to the edge's consumer
  std::vector<RingSlot> releases;  // read for the last time: the producer may reuse the slot. In sequence order for each edge
  std::vector<Issue> issues;       // start these entries
  bool finished = false;           // the list is finished, and none of its entries is running
};

/// Decides what one rank may run next: a state machine without threads, clocks or buffers. Events in, decisions out.
///
/// The list is issued strictly in order. The next entry is issued when its action's inputs, batch and weights are available, its output
/// ring has a free slot, as has what its gradients need, the exchange that it awaits has ended and fewer than `issue_ahead` entries are
/// unfinished. Sequence numbers continue over lists, training or forward-only, so rings are never reset. An edge between two stages of this
/// rank is a hand-off through the same kind of ring: its boundaries and slots count from the moment of issue, because the worker runs in
/// order, and cause no sends or releases.
///
/// An impossible event (a boundary out of order, an unknown edge, a slot freed twice, an entry other than the oldest issued one)
/// throws Error(internal) with the event. One caller at a time. Events allocate nothing, except for the first list with more
/// microbatches than before.
class RankEngine {
 public:
  struct Options {
    RankId rank;
    std::vector<Edge> edges;  // edges_of(placement)
    std::vector<int> depths;  // by EdgeId: Ledger::depths, or more
    int issue_ahead = 2;
    int leaves = 0;  // slots for gradients of a microbatch that replicas add; 0: actions do not wait for any
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
  /// Exchange `sequence`, counted over the run, has ended. Exchanges may end in any order.
  const Decisions& exchange_ended(std::int64_t sequence);
  /// The stage's weights are being exchanged between replicas: none of its actions begins before weights_arrived(). To be called while none
  /// of them is under way.
  void weights_leave(StageId stage);
  const Decisions& weights_arrived(StageId stage);
  /// To be called before start() if the list gathers weights: these residences, in this order. Then gathered() once for each of them, when
  /// its weights are in their slot; the entries that need it do not begin before.
  void will_gather(const RankPlan& plan, const std::vector<Residence>& residences) {
    needed_ = residences_needed(plan, residences, std::move(needed_));
  }
  const Decisions& gathered();
  /// The gradients of the oldest action of the list whose leaf is in use have been added to the sums.
  const Decisions& leaf_added();
  /// The oldest issued entry is done.
  const Decisions& entry_finished(const Action& action, int segment = 0);

  // -- state -------------------------------------------------------------------------------------------------------------
  /// What prevents the next entry from being issued; `compute` as long as one is running.
  [[nodiscard]] Wait wait() const;
  [[nodiscard]] bool running() const { return plan_ != nullptr; }
  [[nodiscard]] int issued() const { return issued_; }      // number of the list's entries that were given to the worker
  [[nodiscard]] int finished() const { return finished_; }  // number of those that are done
  /// Exchange `sequence`, counted over the run, of the running list; null if the list has no such exchange.
  [[nodiscard]] const PlannedExchange* exchange(std::int64_t sequence) const {
    const auto place = static_cast<std::uint64_t>(sequence - first_exchange_);
    return plan_ != nullptr && place < plan_->exchanges.size() ? &plan_->exchanges[place] : nullptr;
  }
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
  [[nodiscard]] WaitReason missing(const PlannedEntry& planned) const;
  void issue(const PlannedEntry& planned);
  void release(const BoundaryUse& use);
  void clear_decisions();
  const Decisions& advance();
  void finish_list();

  RankId rank_;
  int issue_ahead_;
  int leaves_;
  int leaves_made_ = 0, leaves_added_ = 0;  // of the running list: by finished actions; added to the sums
  std::vector<Channel> channels_;           // by EdgeId
  const RankPlan* plan_ = nullptr;
  StepId step_ = no_step;
  int issued_ = 0;
  int finished_ = 0;
  std::vector<std::uint8_t> away_;     // by stage: whether its weights are being exchanged
  std::vector<int> needed_;            // of the running list, by entry: residences_needed; empty: nothing is gathered during it
  int gathered_ = 0;                   // … residences whose weights are here
  std::vector<std::uint8_t> batches_;  // by microbatch of the running list
  std::int64_t first_exchange_ = 0;    // of the running list, counted over the run
  std::vector<std::uint8_t> ended_;    // by exchange of the running list
  Decisions decisions_;
};

}  // namespace millrace::runtime
