#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/coordinator.hpp"
#include "actors/telemetry/merged_curve.hpp"
#include "actors/telemetry/straggler.hpp"

namespace millrace::actors {

/// Totals over the steps of this start of a run.
struct LiveTotals {
  struct Point {
    std::int64_t step = 0;
    double loss = 0;
  };
  using Losses = MergedCurve<1>;
  using Evenness = MergedCurve<3>;
  std::int64_t steps = 0, tokens = 0;
  double seconds = 0;                                    // of all steps
  double smooth_seconds = 0;                             // of one step, smoothed
  std::optional<StepRecord> last;                        // empty before the first
  std::vector<StepTimes> ranks;                          // sums over steps, by rank
  std::optional<Straggler> straggler;                    // if a copy is slow
  Losses losses;                                         // over all steps
  Evenness evenness;                                     // of the routers over all steps: mean, least even, most even
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
  static constexpr std::size_t most_points = LiveTotals::Losses::most_points;

  /// `copies`: of the pipeline, each with as many of the ranks.
  explicit LiveHistory(int copies = 1) : stragglers_(copies) {}

  void add(const StepRecord& record);
  void add_evaluation(const EvaluationRecord& record);
  void add_checkpoint(const CheckpointCommitted& result);
  /// Any thread.
  [[nodiscard]] LiveTotals read() const;

 private:
  void publish();
  LiveTotals totals_;  // used by the adding thread
  StragglerWatch stragglers_;
  mutable std::mutex mutex_;
  LiveTotals shown_;
};

}  // namespace millrace::actors
