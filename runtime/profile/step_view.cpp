#include "runtime/profile/step_view.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* step_view_component = "runtime.profile";

template <class Record>
void sort_by_begin(std::vector<Record>& records) {
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
template <class Record>
bool is_of(const Record& record, StepId step, std::int64_t beginning) {
  return record.step == step && record.begin >= beginning;
}

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

/// Sorts the segments of a rank's actions, which come by time, by its list. The second of two woven actions may have begun first.
std::vector<std::vector<TraceRecord>> sort_as_listed(const std::vector<Action>& list, const std::vector<TraceRecord>& records, RankId rank,
                                                     StepId step) {
  const auto begun = static_cast<std::size_t>(std::ranges::count(records, 0, &TraceRecord::segment));
  MILLRACE_CHECK(begun == list.size(), ExitCode::config, step_view_component,
                 "the trace of rank {} has {} actions of step {}, its list has {}: profile fewer steps, a ring keeps {} records", rank,
                 begun, step.value + 1, list.size(), TraceRing::default_capacity);
  std::map<std::tuple<StageId, SpanKind, MicrobatchId>, std::size_t> places;
  for (std::size_t index = 0; index < list.size(); ++index)
    places[{list[index].stage, span_of(list[index].kind), list[index].microbatch}] = index;
  std::vector<std::vector<TraceRecord>> segments(list.size());
  for (const TraceRecord& record : records) {
    const auto place = places.find({record.stage, record.kind, record.microbatch});
    MILLRACE_CHECK(place != places.end() && segments[place->second].size() == record.segment, ExitCode::internal, step_view_component,
                   "rank {} ran segment {} of {} of stage {}, microbatch {}, in step {}, which its list does not have there", rank,
                   record.segment, to_string(record.kind), record.stage, record.microbatch, step.value + 1);
    segments[place->second].push_back(record);
  }
  for (std::size_t index = 1; index < list.size(); ++index)
    MILLRACE_CHECK(list[index - 1].overlaps_next || segments[index - 1].front().begin <= segments[index].front().begin, ExitCode::internal,
                   step_view_component, "rank {} began {}, entry {} of its list, before {} in step {}", rank, list[index], index,
                   list[index - 1], step.value + 1);
  return segments;
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
    std::vector<TraceRecord> actions;
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
          actions.push_back(record);
      }
    }
    for (const ExchangeRecord& record : trace.exchanges)
      if (is_of(record, step, beginning)) rank.exchanges.push_back(record);
    for (const TransferRecord& record : trace.transfers)
      if (is_of(record, step, beginning)) rank.transfers.push_back(record);
    sort_by_begin(rank.exchanges);
    sort_by_begin(rank.transfers);
    for (auto* records : {&actions, &rank.waits}) sort_by_begin(*records);
    rank.segments = sort_as_listed(schedule.ranks[trace.rank.index()], actions, trace.rank, step);
    for (const auto& segments : rank.segments) {
      rank.actions.push_back(segments.front());
      rank.actions.back().end = segments.back().end;
      view.lists_end = std::max(view.lists_end, segments.back().end);
    }
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

double computing(std::span<const TraceRecord> segments) {
  std::int64_t sum = 0;
  for (const TraceRecord& segment : segments) sum += segment.end - segment.begin;
  return milliseconds(sum);
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
