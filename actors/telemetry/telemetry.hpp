#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/telemetry/live_profile.hpp"
#include "actors/telemetry/live_status.hpp"
#include "actors/telemetry/profile_gather.hpp"
#include "actors/telemetry/run_reporter.hpp"
#include "actors/telemetry/tensorboard_log.hpp"

namespace millrace::actors {

/// How a run ended: ok with a message, or why it could not continue.
using Ending = std::pair<ExitCode, std::string>;

/// The status server with the port that the settings ask for, bound but not serving yet; null if none is requested, and in all
/// processes but 0. Errors: those of StatusServer.
[[nodiscard]] std::unique_ptr<cluster::StatusServer> status_server(const Session& session, const cluster::StatusConfig& config);

/// What a run shows, and where.
struct TelemetrySetup {
  std::string directory;     // run.directory, for event files and profiles; empty: none are written
  bool tensorboard = false;  // run.tensorboard
  LogSettings log;
  std::string build;  // identifies the binary, for profiles
  std::int64_t first_step = 0, steps = 0;
  runtime::MetricsFile* metrics = nullptr;  // may be null; must outlive the telemetry
  /// Writes a requested profile to a folder (RunSettings::profiled); empty: profiles cannot be requested.
  std::function<std::string(runtime::Measured measured, const std::string& folder)> profiled;
  std::vector<RunListener*> listeners;  // of the program; not owned
};

/// The complete output of a training run: lines and metrics.jsonl, TensorBoard's files, the status port, requested profiles.
/// Exists in every process; only process 0 shows anything.
class Telemetry {
 public:
  /// To be created before the agree() after which the ranks start. All references must outlive this object. `server`: from
  /// status_server().
  Telemetry(Session& session, const PipelinePlan& plan, const RankResources& needs, Pipeline& pipeline, TelemetrySetup setup,
            std::unique_ptr<cluster::StatusServer> server);

  [[nodiscard]] RunReporter& reporter() noexcept { return reporter_; }
  /// Empty: nothing is served.
  [[nodiscard]] std::string status_url() const { return server_ ? server_->url() : std::string(); }

  /// In process 0, after the ranks have started.
  void serve();
  /// Runs on process 0's main thread until the run has ended: handles signals and takes profiles. `stop` is called once, when a
  /// signal requests the end.
  [[nodiscard]] Ending oversee(std::future<Ending> ending, const std::function<void()>& stop);
  /// Collective, after the ranks have stopped.
  void close() { gather_.close(); }

 private:
  void write_profile();
  const TelemetrySetup setup_;
  RunReporter reporter_;
  const Pipeline& pipeline_;
  RecordGather gather_;
  std::optional<TensorboardLog> tensorboard_;
  std::optional<LiveStatus> live_;
  std::optional<LiveProfile> profile_;
  std::unique_ptr<cluster::StatusServer> server_;  // declared last: destroyed before what it shows
};

}  // namespace millrace::actors
