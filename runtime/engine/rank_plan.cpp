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

void choose_slots(PlannedAction& planned, const StashSlots& slots, Counts& counts) {
  const ActionKind kind = planned.action.kind;
  const int m = planned.action.microbatch.value;
  if (kind != ActionKind::weight_gradient) planned.stash_input = ring_slot(m, slots.stash_input);
  planned.stash_weight = ring_slot(m, slots.stash_weight);
  if (kind == ActionKind::input_gradient) counts.handed_over[planned.action.microbatch.index()] = counts.split++;
  if (kind == ActionKind::input_gradient || kind == ActionKind::weight_gradient) {
    planned.handoff = ring_slot(counts.handed_over[planned.action.microbatch.index()], slots.handoff);
  }
}

}  // namespace

RankPlan make_rank_plan(const Schedule& schedule, RankId rank, const std::vector<StashSlots>& slots) {
  MILLRACE_CHECK(slots.size() == static_cast<std::size_t>(schedule.placement.stages()), ExitCode::internal, "runtime.engine",
                 "slots of {} stages, expected {}", slots.size(), schedule.placement.stages());
  RankPlan plan{rank, schedule.microbatches, schedule.forward_only(), {}};
  std::vector<Counts> counts(slots.size(), {0, std::vector<int>(static_cast<std::size_t>(schedule.microbatches), 0)});
  for (const Action& action : schedule.ranks.at(rank.index())) {
    PlannedAction planned;
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
    plan.actions.push_back(planned);
  }
  return plan;
}

}  // namespace millrace::runtime
