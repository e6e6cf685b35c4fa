#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/coordinator.hpp"
#include "actors/run_listener.hpp"
#include "actors/run_report.hpp"
#include "actors/telemetry/log_line.hpp"
#include "actors/telemetry/long_evaluation.hpp"
#include "runtime/io/metrics_file.hpp"

namespace millrace::actors {

/// How a run's log shows its steps.
struct LogSettings {
  std::int64_t every = 0;                // log.every; 0: chosen by what stdout is
  std::function<std::size_t()> columns;  // the width of the terminal on which stdout is watched; empty: it is none
  double peak_flops = 0;                 // as of LogLine
  bool shows_rate = true;                // as of LogLine
  std::function<LongEvaluation::Clock::time_point()> now = LongEvaluation::Clock::now;
};

/// The output of a run for users and scripts: lines on stdout, warnings on stderr, metrics.jsonl. On a terminal one line is updated with
/// every step, and log.every says which steps leave a line; elsewhere every tenth does by default. The first and the last step leave one
/// too, and where steps are slow one each minute. metrics.jsonl has all steps. Process 0 only. say(), warn() and evaluating() may be called
/// from any thread; the rest from one thread at a time. Lines go through the console: a terminal that is closed or stopped, a closed pipe
/// or a log on a full disk neither ends nor delays a run.
class RunReporter final : public RunReport {
 public:
  /// `metrics` may be null (nothing is written) and is not owned.
  RunReporter(LogSettings log, runtime::MetricsFile* metrics)
      : log_(std::move(log)), line_(log_.peak_flops, log_.shows_rate), metrics_(metrics), progress_(static_cast<bool>(log_.columns)) {}

  /// Receives every step and evaluation from now on. Not owned.
  void also(RunListener* listener) { listeners_.push_back(listener); }

  void say(std::string_view text) override;
  void warn(std::string_view text);
  void step(const StepRecord& record) override;
  void evaluation_begins(std::int64_t step, std::int64_t microbatches) override;
  /// To be called several times a second: an evaluation that takes long shows how far it is. `done`: the microbatches that rank 0 has
  /// finished, if an evaluation is running.
  void evaluating(std::int64_t done);
  void evaluation(const EvaluationRecord& record, bool recorded) override;
  void sample(std::string_view text) override;
  void checkpoint(const CheckpointCommitted& result) override;

 private:
  void show_step(const StepRecord& record);
  void record_step(const StepRecord& record);
  void put(std::string_view text, bool stays);
  [[nodiscard]] std::string closed_line();
  std::mutex mutex_;  // protects the output, and the progress of an evaluation
  const LogSettings log_;
  bool line_open_ = false;
  bool any_step_ = false;          // a step was shown
  double seconds_since_line_ = 0;  // of steps behind the last one whose line stays
  bool warned_of_rounds_ = false;
  LogLine line_;
  runtime::MetricsFile* metrics_;
  LongEvaluation progress_;
  std::int64_t evaluated_step_ = 0;  // after which the running evaluation began
  std::vector<RunListener*> listeners_;
  std::set<runtime::CheckpointWarning::Cause> warned_;  // causes whose warning is not to be repeated, since they still fail
};

}  // namespace millrace::actors
