#include "runtime/profile/attribution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/profile/prediction.hpp"
#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {
namespace {

Cause cause_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::forward:
      return Cause::forward;
    case SpanKind::input_gradient:
      return Cause::input_gradient;
    case SpanKind::weight_gradient:
      return Cause::weight_gradient;
    case SpanKind::backward:
      return Cause::backward;
    case SpanKind::optimizer:
      return Cause::optimizer;
    case SpanKind::snapshot:
      return Cause::checkpoint;
    default:
      return Cause::other;
  }
}

/// Sweeps through the time of one rank from the step's begin to its end. Time that no record explains is `other`, or idle if the
/// rank has finished its list and another rank has not.
class Sweep {
 public:
  Sweep(const Schedule& schedule, const ActionTable& table, const StepView& view, const StepView::Rank& rank)
      : schedule_(schedule), table_(table), view_(view), at_(view.begin) {
    result_.wall = view.duration();
    list_end_ = rank.actions.empty() ? view.lists_end : std::ranges::max(rank.actions, {}, &TraceRecord::end).end;
    std::vector<TraceRecord> records;
    for (const auto& segments : rank.segments) records.insert(records.end(), segments.begin(), segments.end());
    records.insert(records.end(), rank.waits.begin(), rank.waits.end());
    records.insert(records.end(), rank.others.begin(), rank.others.end());
    std::stable_sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    for (const TraceRecord& record : records) pass(record);
    gap(view.end);
  }

  /// The idle time is in `bubble`; the caller divides it between bubble and imbalance.
  [[nodiscard]] const Attribution& result() const { return result_; }

 private:
  void pass(const TraceRecord& record) {
    if (record.begin > at_) gap(std::min(record.begin, view_.end));
    const std::int64_t begin = std::max(record.begin, at_), end = std::min(record.end, view_.end);
    result_.beyond += std::max<std::int64_t>(0, record.end - record.begin) - std::max<std::int64_t>(0, end - begin);
    if (end <= begin) return;
    if (record.kind == SpanKind::wait) {
      wait(record, begin, end);
    } else {
      result_[cause_of(record.kind)] += end - begin;
    }
    at_ = end;
  }

  void wait(const TraceRecord& record, std::int64_t begin, std::int64_t end) {
    switch (record.reason) {
      case WaitReason::activation:
      case WaitReason::gradient: {
        const std::int64_t produced = std::clamp(produced_within(schedule_, table_, view_, record), begin, end);
        result_[Cause::bubble] += produced - begin;
        result_[Cause::transfer] += end - produced;
        return;
      }
      case WaitReason::credit:
        result_[Cause::transport] += end - begin;
        return;
      case WaitReason::batch:
        result_[Cause::data] += end - begin;
        return;
      case WaitReason::exchange:
        result_[Cause::exchange] += end - begin;
        return;
      case WaitReason::weights:
      case WaitReason::replicas:
        result_[Cause::reduction] += end - begin;
        return;
      case WaitReason::none:
      case WaitReason::compute:
        result_[Cause::other] += end - begin;
    }
  }

  /// Accounts for a gap without records up to `to`.
  void gap(std::int64_t to) {
    if (to <= at_) return;
    const std::int64_t idle_begin = std::clamp(list_end_, at_, to), idle_end = std::clamp(view_.lists_end, idle_begin, to);
    result_[Cause::bubble] += idle_end - idle_begin;
    result_[Cause::other] += to - at_ - (idle_end - idle_begin);
    at_ = to;
  }

  const Schedule& schedule_;
  const ActionTable& table_;
  const StepView& view_;
  std::int64_t at_ = 0, list_end_ = 0;
  Attribution result_;
};

}  // namespace

const char* to_string(Cause cause) {
  static constexpr std::array<const char*, cause_count> names = {"forward",   "input_gradient", "weight_gradient", "backward", "optimizer",
                                                                 "bubble",    "imbalance",      "transfer",        "data",     "checkpoint",
                                                                 "transport", "exchange",       "reduction",       "other"};
  return names.at(static_cast<std::size_t>(cause));
}

std::int64_t Attribution::idle() const {
  const Attribution& self = *this;
  return self[Cause::bubble] + self[Cause::imbalance] + self[Cause::transfer] + self[Cause::transport] + self[Cause::exchange] +
         self[Cause::reduction];
}

std::vector<Attribution> attribute(const Schedule& schedule, const StepView& view, const Exchanging& exchanging) {
  const ActionTable table(schedule);
  const Simulation even = simulate(schedule, alike(mean_costs(schedule, {&view, 1}, exchanging)), false);
  std::vector<Attribution> ranks;
  for (std::size_t rank = 0; rank < view.ranks.size(); ++rank) {
    Attribution attribution = Sweep(schedule, table, view, view.ranks[rank]).result();
    const auto structural = static_cast<std::int64_t>(std::llround((even.makespan - even.ranks[rank].busy) * 1e6));
    const std::int64_t idle = attribution[Cause::bubble];
    attribution[Cause::bubble] = std::min(idle, structural);
    attribution[Cause::imbalance] = idle - attribution[Cause::bubble];
    ranks.push_back(attribution);
  }
  return ranks;
}

std::string problem_of(const Attribution& attribution) {
  for (std::size_t cause = 0; cause < cause_count; ++cause) {
    if (attribution.parts[cause] < 0) return fmt::format("{} is {} ns", to_string(static_cast<Cause>(cause)), attribution.parts[cause]);
  }
  const std::int64_t sum = std::accumulate(attribution.parts.begin(), attribution.parts.end(), attribution.beyond);
  const std::int64_t off = sum > attribution.wall ? sum - attribution.wall : attribution.wall - sum;
  if (static_cast<double>(off) <= 0.005 * static_cast<double>(attribution.wall)) return "";
  return fmt::format("the causes add up to {:.3f} ms of {:.3f} ms, expected within 0.5 %; {:.3f} ms of records overlap", milliseconds(sum),
                     milliseconds(attribution.wall), milliseconds(attribution.beyond));
}

}  // namespace millrace::runtime
