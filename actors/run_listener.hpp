#pragma once

#include <cstdint>

#include "actors/coordinator.hpp"

namespace millrace::actors {

/// Who else is told what the reporter tells people. Called on the coordinator's thread: be brief. What it throws ends the run.
class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual void step(const StepRecord& record) = 0;
  /// `loss`: nats per token after `step` steps. `recorded`: told before, by an earlier start of the run.
  virtual void evaluation(std::int64_t step, double loss, bool recorded) = 0;
  /// A checkpoint was committed, or could not be.
  virtual void checkpoint(const CheckpointCommitted&) {}
};

}  // namespace millrace::actors
