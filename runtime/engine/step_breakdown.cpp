#include "runtime/engine/step_breakdown.hpp"

#include <algorithm>

namespace millrace::runtime {
namespace {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

bool on_lane(const TraceRecord& record, StepId step) { return record.step == step && record.kind != SpanKind::checkpoint_write; }

Range wall_of(std::span<const TraceRecord> records, StepId step) {
  Range range;
  bool any = false;
  for (const TraceRecord& record : records) {
    if (!on_lane(record, step)) continue;
    if (record.kind == SpanKind::step) return {record.begin, record.end};
    range = any ? Range{std::min(range.begin, record.begin), std::max(range.end, record.end)} : Range{record.begin, record.end};
    any = true;
  }
  return range;
}

void add_wait(StepBreakdown& shares, const TraceRecord& record, Range part) {
  const std::int64_t length = part.end - part.begin;
  switch (record.reason) {
    case WaitReason::activation:
    case WaitReason::gradient: {
      const SplitWait split = split_wait(part.begin, part.end, record.produced);
      shares.bubble += split.before;
      shares.transport += split.after;
      break;
    }
    case WaitReason::credit:
      shares.credit += length;
      break;
    case WaitReason::batch:
      shares.data += length;
      break;
    case WaitReason::exchange:
      shares.exchange += length;
      break;
    case WaitReason::weights:
    case WaitReason::replicas:
      shares.reduction += length;
      break;
    case WaitReason::none:
    case WaitReason::compute:
      break;  // between lists: counts as `other`
  }
}

void add_record(StepBreakdown& shares, const TraceRecord& record, Range part) {
  const std::int64_t length = part.end - part.begin;
  switch (record.kind) {
    case SpanKind::forward:
    case SpanKind::input_gradient:
    case SpanKind::weight_gradient:
    case SpanKind::backward:
      shares.compute += length;
      break;
    case SpanKind::optimizer:
    case SpanKind::snapshot:
      shares.optimizer += length;
      break;
    case SpanKind::wait:
      add_wait(shares, record, part);
      break;
    case SpanKind::checkpoint_write:
    case SpanKind::step:
      break;
  }
}

}  // namespace

StepBreakdown& StepBreakdown::operator+=(const StepBreakdown& more) {
  wall += more.wall;
  compute += more.compute;
  bubble += more.bubble;
  transport += more.transport;
  credit += more.credit;
  exchange += more.exchange;
  data += more.data;
  reduction += more.reduction;
  optimizer += more.optimizer;
  other += more.other;
  return *this;
}

SplitWait split_wait(std::int64_t begin, std::int64_t end, std::int64_t produced) {
  if (end <= begin) return {};
  const std::int64_t cut = produced == 0 ? end : std::clamp(produced, begin, end);
  return {cut - begin, end - cut};
}

StepBreakdown summarize(std::span<const TraceRecord> records, StepId step) {
  const Range wall = wall_of(records, step);
  StepBreakdown shares;
  shares.wall = wall.end - wall.begin;
  for (const TraceRecord& record : records) {
    if (!on_lane(record, step)) continue;
    const Range part{std::max(record.begin, wall.begin), std::min(record.end, wall.end)};
    if (part.begin < part.end) add_record(shares, record, part);
  }
  shares.other = shares.wall - shares.compute - shares.bubble - shares.transport - shares.credit - shares.exchange - shares.data -
                 shares.reduction - shares.optimizer;
  return shares;
}

StepBreakdown sum(std::span<const StepBreakdown> ranks) {
  StepBreakdown total;
  for (const StepBreakdown& rank : ranks) total += rank;
  return total;
}

}  // namespace millrace::runtime
