#include "runtime/engine/rank_plan.hpp"

#include <optional>

#include "kernels/base/check.hpp"
#include "runtime/schedule/edge.hpp"

namespace millrace::runtime {
namespace {

// The numbers of actions of each kind that a stage has had so far; microbatches ascend, so the k-th forward takes the k-th
// boundary of the edge, and so on.
struct Counts {
  int split = 0;                 // number of input gradients so far
  std::vector<int> handed_over;  // by microbatch: the index of its hand-off, counted in the order of I
};

int ring_slot(int entry, int slots) { return slots > 0 ? entry % slots : -1; }

BoundaryUse use(std::optional<EdgeId> edge, int ordinal) { return edge ? BoundaryUse{*edge, ordinal} : BoundaryUse{}; }

void choose_slots(PlannedEntry& planned, const StashSlots& slots, Counts& counts) {
  const ActionKind kind = planned.action.kind;
  const int m = planned.action.microbatch.value;
  if (kind != ActionKind::weight_gradient) planned.stash_input = ring_slot(m, slots.stash_input);
  planned.stash_weight = ring_slot(m, slots.stash_weight);
  if (kind == ActionKind::input_gradient) counts.handed_over[planned.action.microbatch.index()] = counts.split++;
  if (kind == ActionKind::input_gradient || kind == ActionKind::weight_gradient) {
    planned.handoff = ring_slot(counts.handed_over[planned.action.microbatch.index()], slots.handoff);
  }
}

/// Appends the segments of an action, of which `planned` is the whole.
void append_segments(RankPlan& plan, const PlannedEntry& planned, const std::vector<SegmentShape>& segments) {
  const int first_of_action = plan.exchanges;
  PlannedEntry entry = planned;
  entry.segments = static_cast<int>(segments.size());
  for (const SegmentShape& segment : segments) {
    entry.awaits = segment.awaits < 0 ? -1 : first_of_action + segment.awaits;
    entry.first_exchange = plan.exchanges;
    entry.posts = segment.posts;
    plan.exchanges += segment.posts;
    MILLRACE_CHECK(entry.awaits < entry.first_exchange, ExitCode::internal, "runtime.engine",
                   "segment {} of {} awaits exchange {} of its action, expected one of the {} that were posted before", entry.segment,
                   planned.action, segment.awaits, entry.first_exchange - first_of_action);
    plan.entries.push_back(entry);
    ++entry.segment;
  }
}

}  // namespace

RankPlan make_rank_plan(const Schedule& schedule, RankId rank, const std::vector<StashSlots>& slots,
                        const std::vector<StageShape>& shapes) {
  MILLRACE_CHECK(slots.size() == static_cast<std::size_t>(schedule.placement.stages()), ExitCode::internal, "runtime.engine",
                 "slots of {} stages, expected {}", slots.size(), schedule.placement.stages());
  MILLRACE_CHECK(shapes.empty() || shapes.size() == slots.size(), ExitCode::internal, "runtime.engine",
                 "segments of {} stages, expected {}", shapes.size(), slots.size());
  const StageShape whole;
  RankPlan plan{rank, schedule.microbatches, schedule.forward_only(), 0, {}};
  std::vector<Counts> counts(slots.size(), {0, std::vector<int>(static_cast<std::size_t>(schedule.microbatches), 0)});
  for (const Action& action : schedule.ranks.at(rank.index())) {
    PlannedEntry planned;
    planned.action = action;
    // A replica's edges carry only the replica's microbatches.
    const int ordinal = action.microbatch.value - schedule.first_microbatch(action.stage).value;
    planned.activation = use(edge_into(schedule.placement, action.stage, BoundaryKind::activation), ordinal);
    if (action.kind != ActionKind::forward) {
      planned.gradient = use(edge_into(schedule.placement, action.stage, BoundaryKind::gradient), ordinal);
    }
    planned.output = use(edge_out_of(schedule.placement, action), ordinal);
    planned.last_use = plan.forward_only || ends_microbatch(action.kind);
    choose_slots(planned, slots[action.stage.index()], counts[action.stage.index()]);
    append_segments(plan, planned, (shapes.empty() ? whole : shapes[action.stage.index()]).of(action.kind));
  }
  return plan;
}

}  // namespace millrace::runtime
