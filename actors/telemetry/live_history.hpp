#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/coordinator.hpp"

namespace millrace::actors {

/// What the steps of this start of a run have come to.
struct LiveTotals {
  /// Mean loss of so many steps, the last of them `step`.
  struct Point {
    std::int64_t step = 0;
    double loss = 0;
  };
  std::int64_t steps = 0, tokens = 0;
  double seconds = 0;              // of all steps
  double smooth_seconds = 0;       // of one, lately
  std::optional<StepRecord> last;  // none before the first
  std::vector<StepTimes> ranks;    // sums over steps, by rank
  std::vector<Point> losses;       // at most LiveHistory::most_points, over all steps
  std::vector<Point> held_out;     // evaluations, the last so many
  struct Checkpoints {
    std::int64_t step = 0;  // of the newest; 0: none was committed yet
    std::int64_t committed = 0, failed = 0;
    std::vector<std::string> problems;  // of the last attempt: why it failed, and what did not work beside it
  };
  Checkpoints checkpoints;
};

/// Keeps the totals up to date, and lets others read them. One thread adds, and never waits: while somebody reads, what is new is shown
/// with the next step.
class LiveHistory {
 public:
  static constexpr std::size_t most_points = 512;

  void add(const StepRecord& record);
  void add_evaluation(std::int64_t step, double loss);
  void add_checkpoint(const CheckpointCommitted& result);
  /// Any thread.
  [[nodiscard]] LiveTotals read() const;

 private:
  void publish();
  LiveTotals totals_;  // the adding thread's
  double bucket_ = 0;  // losses of steps that are not yet a point
  std::int64_t in_bucket_ = 0, bucket_size_ = 1;
  mutable std::mutex mutex_;
  LiveTotals shown_;
};

}  // namespace millrace::actors
