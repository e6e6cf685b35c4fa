#pragma once

#include <caf/actor.hpp>
#include <chrono>
#include <functional>
#include <vector>

#include "actors/messages/messages.hpp"
#include "actors/rank/rank_control.hpp"
#include "actors/rank/slow_link.hpp"
#include "actors/worker_actor.hpp"

namespace millrace::actors {

/// The setup of a rank's actor.
struct RankActorSetup {
  RankControlSetup control;
  /// Sends to the coordinator, from any thread.
  std::function<void(const ToCoordinator&)> report;
  /// Called once, when the rank's first action is issued.
  std::function<void()> begun;
  caf::actor checkpoint;  // of this process; may be empty if nothing is saved
};

/// The shell of a rank's control, on the rank's worker: boundaries, credits and finished work come in as messages, what the control decides
/// goes out to stage actors, loader, checkpoint actor and coordinator. Stage actors live on the same worker, so they run actions in the
/// order in which this actor sends them.
class RankActor : public WorkerActor, private RankPort {
 public:
  RankActor(caf::actor_config& config, RankActorSetup setup);
  caf::behavior make_behavior() override;
  [[nodiscard]] const char* name() const override { return "rank"; }

 private:
  void execute(const Execute& execute) override;
  void work(const RankTask& task) override;
  void load(const LoadBatch& request) override;
  void report(const ToCoordinator& message) override { setup_.report(message); }
  void write_shard(const WriteShard& request) override;
  void begun() override { setup_.begun(); }
  void stopped() override;

  RankActorSetup setup_;
  Rank& rank_;
  RankControl control_;
  caf::actor loader_;
  std::vector<caf::actor> stages_;  // in the order of the rank's stages
};

/// Hands what happens to a rank to its actor, as messages. Outlives the links.
class RankInbox final : public RankEvents {
 public:
  /// `links`: by EdgeId, for rehearsals; may be empty.
  RankInbox(Rank& rank, caf::actor actor, std::vector<SlowLink> links) : rank_(rank), actor_(std::move(actor)), links_(std::move(links)) {}
  void on_arrival(const cluster::Arrival& arrival) override;
  void on_part(const cluster::Arrival& part, std::size_t from) override;
  void on_writable(int channel, std::int64_t sequence) override;
  void on_exchanged(int group, std::int64_t sequence) override;
  void on_replicas_exchanged() override;
  void failed(const TaskFailed& failure) override;

 private:
  Rank& rank_;
  caf::actor actor_;
  std::vector<SlowLink> links_;
};

}  // namespace millrace::actors
