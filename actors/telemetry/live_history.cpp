#include "actors/telemetry/live_history.hpp"

#include <algorithm>
#include <limits>

namespace millrace::actors {
namespace {

/// Mean, smallest and largest over the routers.
LiveTotals::Evenness::Values evenness_of(const std::vector<runtime::ExpertLoad>& experts) {
  double sum = 0, least = std::numeric_limits<double>::infinity(), most = 0;
  for (const auto& load : experts) {
    const double own = load.evenness();
    sum += own;
    least = std::min(least, own);
    most = std::max(most, own);
  }
  return {sum / static_cast<double>(experts.size()), least, most};
}

}  // namespace

void LiveHistory::add(const StepRecord& record) {
  ++totals_.steps;
  totals_.tokens += record.tokens;
  totals_.seconds += record.seconds;
  // The first step builds kernels and touches memory for the first time, so it is not used for the estimate.
  totals_.smooth_seconds = totals_.steps > 2 ? 0.9 * totals_.smooth_seconds + 0.1 * record.seconds : record.seconds;
  totals_.last = record;
  totals_.ranks.resize(record.ranks.size());
  for (std::size_t rank = 0; rank < record.ranks.size(); ++rank) {
    const auto& times = record.ranks[rank];
    auto& sum = totals_.ranks[rank];
    sum = {sum.wall + times.wall,         sum.compute + times.compute, sum.bubble + times.bubble,      sum.wait + times.wait,
           sum.exchange + times.exchange, sum.data + times.data,       sum.reduction + times.reduction};
  }
  stragglers_.add(record.ranks);
  totals_.straggler = stragglers_.slowest();
  totals_.losses.add(record.step, {record.loss});
  if (!record.experts.empty()) totals_.evenness.add(record.step, evenness_of(record.experts));
  publish();
}

void LiveHistory::add_evaluation(const EvaluationRecord& record) {
  if (totals_.held_out.size() == most_points) totals_.held_out.erase(totals_.held_out.begin());
  totals_.held_out.push_back({record.step, record.loss});
  totals_.held_out_terms = record.terms;
  publish();
}

void LiveHistory::add_checkpoint(const CheckpointCommitted& result) {
  auto& checkpoints = totals_.checkpoints;
  checkpoints.problems.clear();
  if (result.error.empty()) {
    checkpoints.step = result.step;
    ++checkpoints.committed;
  } else {
    ++checkpoints.failed;
    checkpoints.problems.push_back(result.error);
  }
  for (const auto& warning : result.warnings) checkpoints.problems.push_back(warning.text);
  publish();
}

void LiveHistory::publish() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) shown_ = totals_;
}

LiveTotals LiveHistory::read() const {
  const std::lock_guard lock(mutex_);
  return shown_;
}

}  // namespace millrace::actors
