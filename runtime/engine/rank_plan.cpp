#include "runtime/engine/rank_plan.hpp"

#include <optional>

#include "kernels/base/check.hpp"
#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/weave.hpp"

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

void choose_slots(PlannedEntry& planned, int ordinal, const StashSlots& slots, Counts& counts) {
  const ActionKind kind = planned.action.kind;
  if (kind != ActionKind::weight_gradient) planned.stash_input = ring_slot(ordinal, slots.stash_input);
  planned.stash_weight = ring_slot(ordinal, slots.stash_weight);
  if (kind == ActionKind::input_gradient) counts.handed_over[planned.action.microbatch.index()] = counts.split++;
  if (kind == ActionKind::input_gradient || kind == ActionKind::weight_gradient) {
    planned.handoff = ring_slot(counts.handed_over[planned.action.microbatch.index()], slots.handoff);
  }
}

/// An action whose segments are being appended to a list.
class Strand {
 public:
  Strand(const PlannedEntry& whole, const std::vector<SegmentShape>& segments, int strand) : entry_(whole), segments_(segments) {
    entry_.segments = static_cast<int>(segments.size());
    entry_.strand = strand;
  }
  [[nodiscard]] const Action& action() const { return entry_.action; }
  [[nodiscard]] const std::vector<SegmentShape>& segments() const { return segments_; }

  void append_next(RankPlan& plan) {
    const SegmentShape& segment = segments_.at(static_cast<std::size_t>(entry_.segment));
    MILLRACE_CHECK(segment.awaits < static_cast<int>(posted_.size()), ExitCode::internal, "runtime.engine",
                   "segment {} of {} awaits exchange {} of its action, expected one of the {} that were posted before", entry_.segment,
                   entry_.action, segment.awaits, posted_.size());
    entry_.awaits = segment.awaits < 0 ? -1 : posted_[static_cast<std::size_t>(segment.awaits)];
    entry_.first_exchange = plan.exchanges;
    entry_.posts = segment.posts;
    for (int post = 0; post < segment.posts; ++post) posted_.push_back(plan.exchanges++);
    plan.entries.push_back(entry_);
    ++entry_.segment;
  }
  void append_all(RankPlan& plan) {
    while (entry_.segment < entry_.segments) append_next(plan);
  }

 private:
  PlannedEntry entry_;
  const std::vector<SegmentShape>& segments_;
  std::vector<int> posted_;  // by exchange of the action: its number in the list
};

void append_woven(RankPlan& plan, Strand& first, Strand& second) {
  const bool same_program = first.action().stage == second.action().stage && first.action().kind == second.action().kind;
  for (const WovenSegment& next : weave({&first.segments()}, {&second.segments()}, same_program))
    (next.action == 0 ? first : second).append_next(plan);
}

}  // namespace

RankPlan make_rank_plan(const Schedule& schedule, RankId rank, const std::vector<StashSlots>& slots,
                        const std::vector<StageShape>& shapes) {
  MILLRACE_CHECK(slots.size() == static_cast<std::size_t>(schedule.placement.stages()), ExitCode::internal, "runtime.engine",
                 "slots of {} stages, expected {}", slots.size(), schedule.placement.stages());
  MILLRACE_CHECK(shapes.empty() || shapes.size() == slots.size(), ExitCode::internal, "runtime.engine",
                 "segments of {} stages, expected {}", shapes.size(), slots.size());
  const StageShape whole;
  RankPlan plan{
      .rank = rank, .microbatches = schedule.microbatches, .forward_only = schedule.forward_only(), .own = schedule.microbatches_of(rank)};
  plan.own_microbatches = static_cast<int>(plan.own.before(schedule.microbatches));
  std::vector<Counts> counts(slots.size(), {0, std::vector<int>(static_cast<std::size_t>(schedule.microbatches), 0)});
  std::optional<Strand> woven;  // the first half of a pair
  for (const Action& action : schedule.ranks.at(rank.index())) {
    PlannedEntry planned;
    planned.action = action;
    // A replica's edges carry only the replica's microbatches.
    const int ordinal = schedule.ordinal_of(action.microbatch);
    planned.activation = use(edge_into(schedule.placement, action.stage, BoundaryKind::activation), ordinal);
    if (action.kind != ActionKind::forward) {
      planned.gradient = use(edge_into(schedule.placement, action.stage, BoundaryKind::gradient), ordinal);
    }
    planned.output = use(edge_out_of(schedule.placement, action), ordinal);
    planned.last_use = plan.forward_only || ends_microbatch(action.kind);
    choose_slots(planned, ordinal, slots[action.stage.index()], counts[action.stage.index()]);
    const auto& segments = (shapes.empty() ? whole : shapes[action.stage.index()]).of(action.kind);
    if (woven) {
      // Without exchanges there is nothing to weave: the halves run in order, in one workspace.
      const bool exchanges = woven->segments().size() > 1 || segments.size() > 1;
      Strand second(planned, segments, exchanges ? 1 : 0);
      if (exchanges) {
        append_woven(plan, *woven, second);
      } else {
        woven->append_all(plan);
        second.append_all(plan);
      }
      woven.reset();
    } else if (action.overlaps_next) {
      woven.emplace(planned, segments, 0);
    } else {
      Strand(planned, segments, 0).append_all(plan);
    }
  }
  return plan;
}

}  // namespace millrace::runtime
