#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "actors/telemetry/live_profile.hpp"
#include "actors/telemetry/live_status.hpp"
#include "actors/telemetry/profile_gather.hpp"
#include "actors/telemetry/run_reporter.hpp"
#include "actors/telemetry/tensorboard_log.hpp"

namespace millrace::actors {

/// How a run ended: ok and what there is to tell of it, or why it could not go on.
using Ending = std::pair<ExitCode, std::string>;

/// The port that settings ask for, bound and silent; null where none is asked for, and in all processes but 0. Errors as StatusServer has
/// them.
[[nodiscard]] std::unique_ptr<cluster::StatusServer> status_server(const Session& session, const RunSettings& settings);

/// All that a training run shows of itself: lines and metrics.jsonl, TensorBoard's files, the status port, profiles that are asked for. Of
/// every process; what is shown is process 0's.
class Telemetry {
 public:
  /// Before the agree() that the ranks start after. `metrics` may be null; it and all references outlive this. `machine`: process
  /// 0's, what a share of the peak is taken of.
  Telemetry(Session& session, const RunSettings& settings, const PipelinePlan& plan, const RankResources& needs, Pipeline& pipeline,
            std::int64_t first_step, const runtime::Machine& machine, runtime::MetricsFile* metrics,
            std::unique_ptr<cluster::StatusServer> server);

  [[nodiscard]] RunReporter& reporter() noexcept { return reporter_; }
  /// Empty: nothing is served.
  [[nodiscard]] std::string status_url() const { return server_ ? server_->url() : std::string(); }

  /// Process 0, when the ranks have started.
  void serve();
  /// Process 0's main thread until the run has ended: signals are heard and profiles taken here. `stop` is called once, when a signal asks
  /// for the end.
  [[nodiscard]] Ending oversee(std::future<Ending> ending, const std::function<void()>& stop);
  /// Collective, when the ranks have stopped.
  void close() { gather_.close(); }

 private:
  void write_profile();
  const RunSettings& settings_;
  RunReporter reporter_;
  RecordGather gather_;
  std::optional<TensorboardLog> tensorboard_;
  std::optional<LiveStatus> live_;
  std::optional<LiveProfile> profile_;
  std::unique_ptr<cluster::StatusServer> server_;  // last: it goes before what it shows
};

}  // namespace millrace::actors
