#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/coordinator.hpp"

namespace millrace::actors {

/// Totals over the steps of this start of a run.
struct LiveTotals {
  /// The mean loss of several steps, the last of which is `step`.
  struct Point {
    std::int64_t step = 0;
    double loss = 0;
  };
  std::int64_t steps = 0, tokens = 0;
  double seconds = 0;                                    // of all steps
  double smooth_seconds = 0;                             // of one step, smoothed
  std::optional<StepRecord> last;                        // empty before the first
  std::vector<StepTimes> ranks;                          // sums over steps, by rank
  std::vector<Point> losses;                             // at most LiveHistory::most_points, over all steps
  std::vector<Point> held_out;                           // the last evaluations
  std::vector<runtime::StepLoss::Named> held_out_terms;  // of the loss of the last one
  struct Checkpoints {
    std::int64_t step = 0;  // of the newest; 0: none was committed yet
    std::int64_t committed = 0, failed = 0;
    std::vector<std::string> problems;  // of the last attempt: why it failed, and further failures beside it
  };
  Checkpoints checkpoints;
};

/// Maintains the totals and lets other threads read them. One thread adds, and never waits: while a reader holds them, the new
/// values become visible with the next step.
class LiveHistory {
 public:
  static constexpr std::size_t most_points = 512;

  void add(const StepRecord& record);
  void add_evaluation(const EvaluationRecord& record);
  void add_checkpoint(const CheckpointCommitted& result);
  /// Any thread.
  [[nodiscard]] LiveTotals read() const;

 private:
  void publish();
  LiveTotals totals_;  // used by the adding thread
  double bucket_ = 0;  // sum of the losses of steps that are not part of a point yet
  std::int64_t in_bucket_ = 0, bucket_size_ = 1;
  mutable std::mutex mutex_;
  LiveTotals shown_;
};

}  // namespace millrace::actors
