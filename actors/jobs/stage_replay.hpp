#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/messages/messages.hpp"
#include "actors/rank/action_runner.hpp"
#include "runtime/batch.hpp"
#include "runtime/ids.hpp"

namespace millrace::actors {

/// One action of a stage with all that came in from elsewhere, and a hash of what went out.
struct StageCall {
  Execute execute;
  std::vector<std::byte> boundary_in, gradient_in;  // of actions that are the first to read them
  runtime::Batch batch;                             // of forwards
  std::string output;                               // hash of the token or gradient that it made; empty where it makes none
};

/// What one stage did in a step.
struct StageRecording {
  runtime::StageId stage;
  std::vector<StageCall> calls;  // in the order in which they ran
  std::string gradients;         // hash of the stage's accumulators behind the last of them
};

/// Computes as ever, and writes down what one stage of the rank reads and makes. On the rank's worker.
class RecordingRunner final : public ProgramRunner {
 public:
  explicit RecordingRunner(runtime::StageId stage) { recording_.stage = stage; }
  void run(Rank& rank, runtime::Stage& stage, const Execute& execute) override;
  [[nodiscard]] const StageRecording& recording() const noexcept { return recording_; }
  void clear() { recording_.calls.clear(); }

 private:
  StageRecording recording_;
};

/// One round of a stage alone.
struct ReplayedRound {
  std::vector<double> milliseconds;  // by call
  std::vector<std::string> outputs;  // as StageCall::output
  std::string gradients;
};

/// Runs the recorded actions again on a rank whose weights are those of the step's beginning: no other stage, no link, no actor, so that a
/// profiler or a sanitizer sees the stage's kernels and little else. On the calling thread's worker: the rank's.
[[nodiscard]] ReplayedRound replay(Rank& rank, const StageRecording& recording);

}  // namespace millrace::actors
