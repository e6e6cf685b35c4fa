#pragma once

#include <optional>

#include "actors/run_setup.hpp"
#include "actors/stepper.hpp"

namespace millrace::actors {

/// A run opened to be walked through in one process: its plan, its data, and where it begins. Outlives the steppers that it sets up.
class SteppedRun {
 public:
  /// Begins with `checkpoint`, where there is none with the run's own beginning. Threads a rank: train.threads, else those that the run
  /// had (the checkpoint's, then `noted`, 0 where nobody knows), else the cores' share. Errors: those of a training run's start;
  /// Error(checkpoint) when the checkpoint is of a run with other identity keys.
  SteppedRun(RunSettings settings, std::optional<runtime::CheckpointReader> checkpoint, std::int64_t noted = 0);
  SteppedRun(const SteppedRun&) = delete;
  SteppedRun& operator=(const SteppedRun&) = delete;

  [[nodiscard]] const RunSettings& settings() const noexcept { return settings_; }
  [[nodiscard]] const PipelinePlan& plan() const noexcept { return plan_; }
  [[nodiscard]] const DatasetBatches& batches() const noexcept { return batches_; }
  [[nodiscard]] std::int64_t first_step() const noexcept { return checkpoint_ ? static_cast<std::int64_t>(checkpoint_->step()) : 0; }
  [[nodiscard]] int threads() const noexcept { return threads_; }
  /// Of a stepper that begins where the run does.
  [[nodiscard]] StepperSetup setup() const;

 private:
  RunSettings settings_;
  PipelinePlan plan_;
  DatasetBatches batches_;
  std::optional<runtime::CheckpointReader> checkpoint_;
  int threads_ = 1;
};

}  // namespace millrace::actors
