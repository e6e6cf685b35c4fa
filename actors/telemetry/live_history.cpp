#include "actors/telemetry/live_history.hpp"

namespace millrace::actors {

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
    sum = {sum.wall + times.wall, sum.compute + times.compute, sum.bubble + times.bubble, sum.wait + times.wait, sum.data + times.data};
  }
  bucket_ += record.loss;
  if (++in_bucket_ == bucket_size_) {
    totals_.losses.push_back({record.step, bucket_ / static_cast<double>(in_bucket_)});
    bucket_ = 0;
    in_bucket_ = 0;
  }
  if (totals_.losses.size() == most_points) {  // pairs of points are merged, and every later point covers twice as many steps
    for (std::size_t i = 0; i < most_points / 2; ++i) {
      const auto &first = totals_.losses[2 * i], &second = totals_.losses[2 * i + 1];
      totals_.losses[i] = {second.step, (first.loss + second.loss) / 2};
    }
    totals_.losses.resize(most_points / 2);
    bucket_size_ *= 2;
  }
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
