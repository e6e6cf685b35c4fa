#pragma once

#include <cstdint>
#include <string>

#include "actors/run_listener.hpp"
#include "runtime/io/event_file.hpp"

namespace millrace::actors {

/// A run's numbers as TensorBoard event files, in the folder `tensorboard` of its directory. Errors as for metrics.jsonl:
/// Error(storage) ends the run.
class TensorboardLog : public RunListener {
 public:
  /// `step`: number of steps finished before this start of the run. `peak_flops`: of the job, for MFU; 0: not known.
  TensorboardLog(const std::string& run_directory, std::int64_t step, double peak_flops);

  void step(const StepRecord& record) override;
  void evaluation(const EvaluationRecord& record, bool recorded) override;

 private:
  runtime::EventFile file_;
  double peak_flops_;
};

}  // namespace millrace::actors
