#include "runtime/schedule/ledger.hpp"

#include <algorithm>

#include "runtime/schedule/causality.hpp"

namespace millrace::runtime {
namespace {

// Models a ring whose entries arrive and are freed in order, and measures the maximum width of the window of live entries.
class Window {
 public:
  void enter() {
    over_.push_back(false);
    width_ = std::max(width_, static_cast<int>(over_.size() - oldest_));
  }
  void leave(int entry) {
    over_[static_cast<std::size_t>(entry)] = true;
    while (oldest_ < over_.size() && over_[oldest_]) ++oldest_;
  }
  [[nodiscard]] int width() const { return width_; }

 private:
  std::vector<bool> over_;
  std::size_t oldest_ = 0;
  int width_ = 0;
};

StashSlots count_slots(const Schedule& schedule, StageId stage) {
  Window input;
  Window weight;
  Window handoff;
  int taken = 0;
  const auto begin = [&](const Action& action) {
    if (action.stage != stage) return;
    if (action.kind == ActionKind::forward) {
      input.enter();
      weight.enter();
    }
    if (action.kind == ActionKind::input_gradient) handoff.enter();
  };
  const auto end = [&](const Action& action) {
    if (action.stage != stage) return;
    const int m = schedule.ordinal_of(action.microbatch);  // all microbatches enter, in order, so m equals the number of entries
    if (makes_gradient(action.kind)) input.leave(m);
    if (ends_microbatch(action.kind)) weight.leave(m);
    if (action.kind == ActionKind::weight_gradient) handoff.leave(taken++);
  };
  const auto& list = schedule.ranks[schedule.placement.rank_of(stage).index()];
  for (std::size_t index = 0; index < list.size(); ++index) {
    const bool pair = list[index].overlaps_next && index + 1 < list.size();  // both begin before either ends
    begin(list[index]);
    if (pair) begin(list[index + 1]);
    end(list[index]);
    if (pair) end(list[++index]);
  }
  return {input.width(), weight.width(), handoff.width()};
}

// The number of boundaries of the edge that may be unfinished, this one included, when the action that produces boundary m
// starts; the maximum over m.
int count_depth(const Schedule& schedule, const ActionTable& table, const Edge& edge, const std::vector<std::vector<int>>& finished,
                bool forward_only) {
  int depth = 1;
  int over = 0;  // boundaries 0…over−1 are known to be finished; it only increases, since the producer's knowledge only grows
  const auto& known = finished[edge.producer_rank.index()];
  for (int m = 0; m < schedule.microbatches_of(edge.producer); ++m) {
    const MicrobatchId boundary = schedule.microbatch_of(edge.producer, m);
    const int maker =
        edge.kind == BoundaryKind::activation ? table.forward(edge.producer, boundary) : table.gradient(edge.producer, boundary);
    const int seen = known[static_cast<std::size_t>(maker)];
    while (over < m) {
      const MicrobatchId held = schedule.microbatch_of(edge.producer, over);
      const int last = forward_only ? table.forward(edge.consumer, held) : table.last(edge.consumer, held);
      if (last >= seen) break;
      ++over;
    }
    depth = std::max(depth, 1 + m - over);
  }
  return depth;
}

}  // namespace

Ledger make_ledger(const Schedule& schedule) {
  Ledger ledger;
  const bool forward_only = schedule.forward_only();
  for (int stage = 0; stage < schedule.placement.stages(); ++stage) {
    ledger.stages.push_back(forward_only ? StashSlots{} : count_slots(schedule, StageId{stage}));
  }
  const ActionTable table(schedule);
  const auto order = causal_order(schedule, table);
  const auto edges = edges_of(schedule.placement);
  ledger.depths.assign(edges.size(), 1);
  for (int rank = 0; rank < schedule.placement.ranks(); ++rank) {
    const auto finished = finished_before_start(schedule, table, order, RankId{rank});
    for (const Edge& edge : edges) {
      if (edge.consumer_rank != RankId{rank}) continue;
      if (forward_only && edge.kind == BoundaryKind::gradient) continue;  // evaluation has no gradients
      ledger.depths[edge.id.index()] = count_depth(schedule, table, edge, finished, forward_only);
    }
  }
  return ledger;
}

Ledger larger_of(Ledger ledger, const Ledger& other) {
  for (std::size_t i = 0; i < other.stages.size(); ++i) {
    StashSlots& slots = ledger.stages.at(i);
    slots.stash_input = std::max(slots.stash_input, other.stages[i].stash_input);
    slots.stash_weight = std::max(slots.stash_weight, other.stages[i].stash_weight);
    slots.handoff = std::max(slots.handoff, other.stages[i].handoff);
  }
  for (std::size_t i = 0; i < other.depths.size(); ++i) ledger.depths.at(i) = std::max(ledger.depths[i], other.depths[i]);
  return ledger;
}

}  // namespace millrace::runtime
