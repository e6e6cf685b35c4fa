#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/rank/progress_slot.hpp"
#include "actors/run_listener.hpp"
#include "actors/setup/session.hpp"
#include "actors/telemetry/live_history.hpp"
#include "actors/telemetry/live_view.hpp"
#include "cluster/status/status_server.hpp"

namespace millrace::actors {

class Pipeline;

/// What process 0 knows about a running job: the state of its own ranks directly, that of others from their heartbeats, the steps
/// from the reporter. The run's threads publish their state here without blocking; the status server's thread combines it on
/// request.
class LiveStatus : public RunListener {
 public:
  /// Session and pipeline must outlive it; receives heartbeats until it is destroyed.
  LiveStatus(LiveRun run, Session& session, const Pipeline& pipeline);
  ~LiveStatus() override;
  LiveStatus(const LiveStatus&) = delete;
  LiveStatus& operator=(const LiveStatus&) = delete;

  void step(const StepRecord& record) override { history_.add(record); }
  void evaluation(const EvaluationRecord& record, bool) override { history_.add_evaluation(record); }
  void checkpoint(const CheckpointCommitted& result) override { history_.add_checkpoint(result); }

  /// Any thread.
  [[nodiscard]] LiveView view() const;
  /// "/", "/status" and "/metrics".
  [[nodiscard]] std::vector<cluster::StatusPage> pages() const;

 private:
  void receive(std::span<const cluster::Progress> progress);

  LiveRun run_;
  Session& session_;
  const Pipeline& pipeline_;
  std::int64_t begin_;
  std::vector<ProgressSlot> others_;  // by rank; those of other processes
  LiveHistory history_;
};

/// The token that clients must present, from the file that `config` names; empty if it names none. Errors: Error(config) for a
/// file that other users can read, or whose text is not a token.
[[nodiscard]] std::string read_token(const cluster::StatusConfig& config);

}  // namespace millrace::actors
