#pragma once

#include <optional>

#include "actors/jobs/run_setup.hpp"
#include "actors/jobs/stepper.hpp"
#include "actors/setup/run_settings.hpp"

namespace millrace::actors {

/// A run opened for stepping in one process: its plan, its data, and its starting point. Must outlive the steppers that it sets
/// up.
class SteppedRun {
 public:
  /// Begins with `checkpoint` or, without one, with the run's own beginning. In that case `later`, another checkpoint of the run,
  /// identifies the run; it may be null. Threads per rank: train.threads, else a share of the cores.
  /// Errors: those of a training run's start; Error(checkpoint) if the run had other identity keys or data.
  SteppedRun(RunSettings settings, std::optional<runtime::CheckpointReader> checkpoint, const runtime::CheckpointReader* later = nullptr);
  SteppedRun(const SteppedRun&) = delete;
  SteppedRun& operator=(const SteppedRun&) = delete;

  [[nodiscard]] const PipelinePlan& plan() const noexcept { return plan_; }
  [[nodiscard]] const DatasetBatches& batches() const noexcept { return batches_; }
  [[nodiscard]] std::int64_t first_step() const noexcept { return checkpoint_ ? static_cast<std::int64_t>(checkpoint_->step()) : 0; }
  [[nodiscard]] int threads() const noexcept { return threads_; }
  /// The setup of a stepper that begins where the run does.
  [[nodiscard]] StepperSetup setup() const;

 private:
  void check(const runtime::CheckpointReader& checkpoint) const;

  RunSettings settings_;
  PipelinePlan plan_;
  std::optional<runtime::CheckpointReader> checkpoint_;
  std::optional<runtime::CheckpointReader> source_;  // with which the run began, if it starts at its beginning here
  DatasetBatches batches_;
  std::shared_ptr<const runtime::TokenCompression> compression_;  // RankResources::compression
  int threads_ = 1;
};

}  // namespace millrace::actors
