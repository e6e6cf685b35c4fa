#pragma once

#include <cstdint>

#include "actors/coordinator.hpp"

namespace millrace::actors {

/// Further receivers of what the reporter shows. Called on the coordinator's thread, so calls must be short. An exception ends
/// the run.
class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual void step(const StepRecord& record) = 0;
  /// `recorded`: reported before, by an earlier start of the run.
  virtual void evaluation(const EvaluationRecord& record, bool recorded) = 0;
  /// A checkpoint was committed, or could not be.
  virtual void checkpoint(const CheckpointCommitted&) {}
};

}  // namespace millrace::actors
