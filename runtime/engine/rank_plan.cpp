#include "runtime/engine/rank_plan.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "kernels/base/check.hpp"
#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/segment_list.hpp"

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

/// What must be the same of all members: a copy has the j-th of its own microbatches where another has the j-th of its own.
auto common_part(const RankPlan& plan, std::size_t index) {
  const PlannedEntry& entry = plan.entries[index];
  const auto ordinal = plan.own.before(entry.action.microbatch.value);
  return std::tuple(entry.action.kind, ordinal, entry.segment, entry.segments, entry.strand, entry.awaits, entry.first_exchange,
                    entry.posts);
}

std::string entry_text(const RankPlan& plan, std::size_t index) {
  if (index >= plan.entries.size()) return "its end";
  return fmt::format("{} segment {}", plan.entries[index].action, plan.entries[index].segment);
}

}  // namespace

void check_members(const std::vector<const RankPlan*>& members) {
  for (const RankPlan* member : members) {
    const RankPlan& first = *members.front();
    const std::size_t longest = std::max(first.entries.size(), member->entries.size());
    for (std::size_t index = 0; index < longest; ++index) {
      const bool both = index < first.entries.size() && index < member->entries.size();
      MILLRACE_CHECK(both && common_part(first, index) == common_part(*member, index), ExitCode::internal, "runtime.engine",
                     "rank {} and rank {} share experts, but at entry {} of their lists are {} and {}, expected the same", first.rank,
                     member->rank, index, entry_text(first, index), entry_text(*member, index));
    }
  }
}

RankPlan make_rank_plan(const Schedule& schedule, RankId rank, const std::vector<StashSlots>& slots,
                        const std::vector<StageShape>& shapes) {
  MILLRACE_CHECK(slots.size() == static_cast<std::size_t>(schedule.placement.stages()), ExitCode::internal, "runtime.engine",
                 "slots of {} stages, expected {}", slots.size(), schedule.placement.stages());
  MILLRACE_CHECK(shapes.empty() || shapes.size() == slots.size(), ExitCode::internal, "runtime.engine",
                 "segments of {} stages, expected {}", shapes.size(), slots.size());
  RankPlan plan{
      .rank = rank, .microbatches = schedule.microbatches, .forward_only = schedule.forward_only(), .own = schedule.microbatches_of(rank)};
  plan.own_microbatches = static_cast<int>(plan.own.before(schedule.microbatches));
  std::vector<Counts> counts(slots.size(), {0, std::vector<int>(static_cast<std::size_t>(schedule.microbatches), 0)});
  const auto& list = schedule.ranks.at(rank.index());
  plan.last_gradients.resize(slots.size());
  std::vector<PlannedEntry> actions;
  int leaves = 0;
  for (const Action& action : list) {
    PlannedEntry& planned = actions.emplace_back();
    if (ends_microbatch(action.kind)) {
      plan.last_gradients[action.stage.index()] = action;
      planned.leaf = leaves++;
    }
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
  }
  std::vector<int> posted(actions.size());  // by action: its exchanges so far
  for (const ListSegment& segment : segment_list(list, shapes)) {
    PlannedEntry& entry = plan.entries.emplace_back(actions[static_cast<std::size_t>(segment.action)]);
    entry.segment = segment.segment;
    entry.segments = segment.segments;
    entry.strand = segment.strand;
    entry.first_exchange = segment.first_exchange;
    entry.posts = segment.posts;
    entry.awaits = segment.awaits;
    for (int post = 0; post < segment.posts; ++post)
      plan.exchanges.push_back({entry.action, posted[static_cast<std::size_t>(segment.action)]++});
  }
  return plan;
}

}  // namespace millrace::runtime
