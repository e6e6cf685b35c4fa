#pragma once

#include <optional>

#include "actors/jobs/run_setup.hpp"
#include "actors/jobs/stepper.hpp"

namespace millrace::actors {

/// A run opened to be walked through in one process: its plan, its data, and where it begins. Outlives the steppers that it sets up.
class SteppedRun {
 public:
  /// Begins with `checkpoint`, where there is none with the run's own beginning. `later`, another checkpoint of the run, tells then what
  /// the run was; it may be null. Threads a rank: train.threads, else those that the run had, else the cores' share. Errors: those of a
  /// training run's start; Error(checkpoint) when the run had other identity keys or data.
  SteppedRun(RunSettings settings, std::optional<runtime::CheckpointReader> checkpoint, const runtime::CheckpointReader* later = nullptr);
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
  void check(const runtime::CheckpointReader& checkpoint) const;

  RunSettings settings_;
  PipelinePlan plan_;
  std::optional<runtime::CheckpointReader> checkpoint_;
  DatasetBatches batches_;
  int threads_ = 1;
};

}  // namespace millrace::actors
