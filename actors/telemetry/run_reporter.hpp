#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "actors/coordinator.hpp"
#include "actors/run_listener.hpp"
#include "actors/run_report.hpp"
#include "actors/telemetry/log_line.hpp"
#include "runtime/io/metrics_file.hpp"

namespace millrace::actors {

/// The output of a run for users and scripts: lines on stdout (one updating line on a terminal), warnings on stderr,
/// metrics.jsonl. Process 0 only. say() and warn() may be called from any thread; the rest from one thread at a time. Lines go
/// through the console: a terminal that is closed or stopped, a closed pipe or a log on a full disk neither ends nor delays a
/// run.
class RunReporter final : public RunReport {
 public:
  /// `metrics` may be null (nothing is written) and is not owned.
  RunReporter(bool terminal, double peak_flops, runtime::MetricsFile* metrics)
      : terminal_(terminal), line_(peak_flops), metrics_(metrics) {}

  /// Receives every step and evaluation from now on. Not owned.
  void also(RunListener* listener) { listeners_.push_back(listener); }

  void say(std::string_view text) override;
  void warn(std::string_view text);
  void step(const StepRecord& record) override;
  void evaluation(const EvaluationRecord& record, bool recorded) override;
  void sample(std::string_view text) override;
  void checkpoint(const CheckpointCommitted& result) override;

 private:
  void show(std::string_view text);
  [[nodiscard]] std::string closed_line();
  std::mutex mutex_;  // protects the output
  bool terminal_;
  bool line_open_ = false;
  bool warned_of_rounds_ = false;
  LogLine line_;
  runtime::MetricsFile* metrics_;
  std::vector<RunListener*> listeners_;
  std::set<runtime::CheckpointWarning::Cause> warned_;  // causes whose warning is not to be repeated, since they still fail
};

}  // namespace millrace::actors
