#pragma once

#include <cstdint>

#include "runtime/engine/trace.hpp"
#include "runtime/engine/wait.hpp"

namespace millrace::actors {

/// Turns "the worker has nothing to do, because …" into trace records: a wait begins when the engine is blocked with nothing
/// running, and ends at the next issue.
class WaitClock {
 public:
  /// Nothing runs because of `wait`. A wait already in progress keeps its begin and takes the newest reason.
  void blocked(const runtime::Wait& wait, std::int64_t now) {
    if (begin_ == 0) begin_ = now;
    wait_ = wait;
  }
  /// The next action is issued; `produced` is when its input's producer finished, 0 if unknown. Returns whether there was a wait,
  /// in `record`.
  bool issued(runtime::StepId step, std::int64_t produced, std::int64_t now, runtime::TraceRecord& record) {
    if (begin_ == 0) return false;
    record = {};
    record.begin = begin_;
    record.end = now;
    record.produced = produced;
    record.step = step;
    record.stage = wait_.action.stage;
    record.microbatch = wait_.action.microbatch;
    record.peer = wait_.peer;
    record.action = wait_.action.kind;
    record.segment = static_cast<std::uint16_t>(wait_.segment);
    record.kind = runtime::SpanKind::wait;
    record.reason = wait_.reason;
    begin_ = 0;
    return true;
  }

 private:
  std::int64_t begin_ = 0;
  runtime::Wait wait_;
};

}  // namespace millrace::actors
