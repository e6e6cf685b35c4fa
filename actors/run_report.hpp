#pragma once

#include <cstdint>
#include <string_view>

#include "actors/coordinator.hpp"

namespace millrace::actors {

/// What the coordinator reports about a run. RunReporter (telemetry/run_reporter.hpp) shows it to users and scripts. say() may be
/// called from any thread; the rest from one thread at a time.
class RunReport {
 public:
  virtual ~RunReport() = default;
  virtual void say(std::string_view text) = 0;
  virtual void step(const StepRecord& record) = 0;
  /// An evaluation of `microbatches` microbatches begins after `step` steps; 0: the running one is abandoned.
  virtual void evaluation_begins(std::int64_t step, std::int64_t microbatches) = 0;
  /// `recorded`: the metrics file has this evaluation already (a finished run that was started again).
  virtual void evaluation(const EvaluationRecord& record, bool recorded) = 0;
  virtual void sample(std::string_view text) = 0;
  /// A checkpoint was committed, or failed. Also warns about secondary failures (deleting old checkpoints, the journal), once per
  /// cause; the warning is repeated only if the operation has succeeded in between.
  virtual void checkpoint(const CheckpointCommitted& result) = 0;
};

}  // namespace millrace::actors
