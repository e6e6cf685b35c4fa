#include "runtime/profile/step_view.hpp"

#include <algorithm>
#include <limits>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* step_view_component = "runtime.profile";

void sort_by_begin(std::vector<TraceRecord>& records) {
  std::stable_sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
}

bool is_action(SpanKind kind) {
  return kind == SpanKind::forward || kind == SpanKind::input_gradient || kind == SpanKind::weight_gradient || kind == SpanKind::backward;
}

/// The time at which the rank received the training step. Earlier records with the same step number belong to an
/// evaluation or a first attempt.
std::int64_t beginning_of(const RankTrace& trace, StepId step) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::min();
  for (const TraceRecord& record : trace.compute)
    if (record.step == step && record.kind == SpanKind::step) begin = std::max(begin, record.begin);
  return begin;
}

/// Whether a record belongs to the training step with this number; `beginning` is beginning_of().
bool is_of(const TraceRecord& record, StepId step, std::int64_t beginning) { return record.step == step && record.begin >= beginning; }

/// Adds the snapshots. A snapshot has the number of the step before it, but takes time from the step during which it is made,
/// usually the next one. A rank that copies does not wait for others meanwhile.
void add_snapshots(const RankTrace& trace, const StepView& view, StepView::Rank& rank) {
  for (TraceRecord record : trace.compute) {
    if (record.kind != SpanKind::snapshot || record.end <= view.begin || record.begin >= view.end) continue;
    record.begin = std::max(record.begin, view.begin);
    record.end = std::min(record.end, view.end);
    rank.others.push_back(record);
    for (TraceRecord& wait : rank.waits)
      if (wait.begin < record.end && wait.end > record.begin) wait.begin = std::min(record.end, wait.end);
  }
}

/// Makes one record of the segments of each action, and keeps those of a list that has any.
void join_segments(StepView::Rank& rank) {
  const auto divided = [](const TraceRecord& record) { return record.segment > 0; };
  if (std::ranges::none_of(rank.actions, divided)) return;
  rank.segments = std::move(rank.actions);
  rank.actions.clear();
  for (const TraceRecord& record : rank.segments) {
    const auto of_action = [&](const TraceRecord& other) {
      return other.stage == record.stage && other.microbatch == record.microbatch && other.kind == record.kind;
    };
    const auto whole = record.segment == 0 ? rank.actions.rend() : std::find_if(rank.actions.rbegin(), rank.actions.rend(), of_action);
    if (whole == rank.actions.rend())
      rank.actions.push_back(record);
    else
      whole->end = record.end;
  }
}

void check_list(const std::vector<Action>& list, const StepView::Rank& found, RankId rank, StepId step) {
  MILLRACE_CHECK(found.actions.size() == list.size(), ExitCode::config, step_view_component,
                 "the trace of rank {} has {} actions of step {}, its list has {}: profile fewer steps, a ring keeps {} records", rank,
                 found.actions.size(), step.value + 1, list.size(), TraceRing::default_capacity);
  for (std::size_t index = 0; index < list.size(); ++index) {
    const TraceRecord& record = found.actions[index];
    MILLRACE_CHECK(
        record.stage == list[index].stage && record.microbatch == list[index].microbatch && record.kind == span_of(list[index].kind),
        ExitCode::internal, step_view_component, "entry {} of rank {} in step {} was {} of stage {}, microbatch {}, expected {}", index,
        rank, step.value + 1, to_string(record.kind), record.stage, record.microbatch, list[index]);
  }
}

}  // namespace

StepView view_of(const Schedule& schedule, std::span<const RankTrace> traces, StepId step) {
  MILLRACE_CHECK(traces.size() == schedule.ranks.size(), ExitCode::internal, step_view_component, "traces of {} ranks, expected {}",
                 traces.size(), schedule.ranks.size());
  StepView view;
  view.step = step;
  view.begin = std::numeric_limits<std::int64_t>::max();
  view.end = view.lists_end = std::numeric_limits<std::int64_t>::min();
  for (const RankTrace& trace : traces) {
    StepView::Rank rank;
    const std::int64_t beginning = beginning_of(trace, step);
    for (const TraceRecord& record : trace.compute) {
      if (!is_of(record, step, beginning) || record.kind == SpanKind::snapshot) continue;
      view.begin = std::min(view.begin, record.begin);
      view.end = std::max(view.end, record.end);
      switch (record.kind) {
        case SpanKind::wait:
          rank.waits.push_back(record);
          break;
        case SpanKind::optimizer:
          rank.others.push_back(record);
          break;
        case SpanKind::step:
        case SpanKind::snapshot:  // handled below
        case SpanKind::checkpoint_write:
          break;
        default:
          rank.actions.push_back(record);
      }
    }
    for (auto* records : {&rank.actions, &rank.waits}) sort_by_begin(*records);
    join_segments(rank);
    check_list(schedule.ranks[trace.rank.index()], rank, trace.rank, step);
    if (!rank.actions.empty()) view.lists_end = std::max(view.lists_end, rank.actions.back().end);
    view.ranks.push_back(std::move(rank));
  }
  for (std::size_t rank = 0; rank < traces.size(); ++rank) {
    add_snapshots(traces[rank], view, view.ranks[rank]);
    sort_by_begin(view.ranks[rank].others);
  }
  return view;
}

bool is_whole(const Schedule& schedule, std::span<const RankTrace> traces, StepId step) {
  return std::all_of(traces.begin(), traces.end(), [&](const RankTrace& trace) {
    const std::int64_t beginning = beginning_of(trace, step);
    const auto actions = std::count_if(trace.compute.begin(), trace.compute.end(), [&](const TraceRecord& record) {
      return is_of(record, step, beginning) && is_action(record.kind) && record.segment == 0;
    });
    return static_cast<std::size_t>(actions) == schedule.ranks[trace.rank.index()].size();
  });
}

std::optional<ProducedBoundary> boundary_of(const ActionTable& table, const StepView& view, const Action& action) {
  const auto source = table.boundary_source(action);
  if (!source) return std::nullopt;
  return ProducedBoundary{*source, view.ranks[source->rank.index()].actions[static_cast<std::size_t>(source->index)].end};
}

std::optional<ProducedBoundary> waited_boundary(const Schedule& schedule, const ActionTable& table, const StepView& view,
                                                const TraceRecord& wait) {
  if (wait.reason != WaitReason::activation && wait.reason != WaitReason::gradient) return std::nullopt;
  if (wait.stage == no_stage || wait.microbatch == no_microbatch) return std::nullopt;
  const bool gradient = wait.reason == WaitReason::gradient;
  const int index = gradient ? table.gradient(wait.stage, wait.microbatch) : table.forward(wait.stage, wait.microbatch);
  if (index < 0) return std::nullopt;
  const auto& list = schedule.ranks[schedule.placement.rank_of(wait.stage).index()];
  return boundary_of(table, view, list[static_cast<std::size_t>(index)]);
}

std::int64_t produced_within(const Schedule& schedule, const ActionTable& table, const StepView& view, const TraceRecord& wait) {
  const auto boundary = waited_boundary(schedule, table, view, wait);
  return boundary ? std::clamp(boundary->produced, wait.begin, std::max(wait.begin, wait.end)) : wait.end;
}

}  // namespace millrace::runtime
