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

/// One action of a stage, or a segment of one, with all its inputs from elsewhere, and a hash of its output.
struct StageCall {
  Execute execute;
  std::vector<std::byte> boundary_in, gradient_in;  // slots with all their ports, of actions that are the first to read them
  std::vector<std::byte> arrivals;                  // the rows of the exchange that the segment awaits
  runtime::Batch batch;                             // of forwards
  std::string output;                               // hash of the activation or gradient that it produces; empty if there is none
};

/// Everything that one stage did in a step.
struct StageRecording {
  runtime::StageId stage;
  std::vector<StageCall> calls;  // in execution order
  std::string gradients;         // hash of the stage's accumulators after the last call
};

/// Computes as usual, and records what one stage of the rank reads and writes. On the rank's worker.
class RecordingRunner final : public ProgramRunner {
 public:
  explicit RecordingRunner(runtime::StageId stage) { recording_.stage = stage; }
  void run(Rank& rank, runtime::Stage& stage, const Execute& execute) override;
  [[nodiscard]] const StageRecording& recording() const noexcept { return recording_; }
  void clear() { recording_.calls.clear(); }

 private:
  StageRecording recording_;
};

/// One repetition of a stage alone.
struct ReplayedRound {
  std::vector<double> milliseconds;  // by call
  std::vector<std::string> outputs;  // in the form of StageCall::output
  std::string gradients;
};

/// Runs the recorded actions again on a rank that has the weights of the step's beginning; exchanges bring the recorded rows. No other
/// stage, link or actor is involved, so that a profiler or a sanitizer sees little but the stage's kernels. On the calling thread, which
/// must be the rank's worker.
[[nodiscard]] ReplayedRound replay(Rank& rank, const StageRecording& recording);

}  // namespace millrace::actors
