#pragma once

#include <atomic>
#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/checkpoint_actor.hpp"
#include "actors/rank/action_costs.hpp"
#include "actors/rank/batch_provider.hpp"
#include "actors/rank/rank.hpp"
#include "actors/rank/slow_link.hpp"
#include "actors/rank/stall_watch.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "actors/setup/session.hpp"

namespace millrace::actors {

/// The ranks that this process hosts, the channels between all ranks, and the actor system that runs them. Connects these
/// components.
class Pipeline {
 public:
  Pipeline(Session& session, const PipelinePlan& plan, const RankResources& needs);
  /// All actors must have ended.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  [[nodiscard]] std::vector<Rank*> ranks() const;
  [[nodiscard]] caf::actor_system& system() noexcept { return *system_; }

  /// Further arguments of start().
  struct Start {
    const BatchProvider* batches = nullptr;
    std::int64_t first_step = 0, steps = 0;
    std::string nan_folder, hash_directory;  // as in RankControlSetup
    CheckpointActorSetup checkpoint;         // ranks and trace are filled in by start()
    /// Spawns the coordinator in process 0. It gets a function that sends to all ranks, and the checkpoint actor; returns the
    /// actor that receives the ranks' reports.
    std::function<caf::actor(std::function<void(const ToRank&)> to_ranks, caf::actor checkpoint)> coordinator;
    /// Per hosted rank: what Collect returns besides gradients.
    std::function<std::vector<CapturedTensor>(Rank& rank)> captured;
    std::map<const Rank*, ActionCosts*> action_costs;  // as RankControlSetup has them; may be empty
    std::vector<SlowLink> links;                       // as RankInbox has them; may be empty
  };
  /// Collective: spawns the actors; the ranks report RankReady.
  void start(const Start& start);
  /// Returns when the hosted ranks have been stopped.
  void wait();
  /// Collective, after wait(): no message is in flight any more.
  void close();

  /// What hosted rank `index` is doing, with its rings once start() has returned. Any thread; never blocks and delays no other
  /// thread.
  [[nodiscard]] ProgressSlot::Reading progress(std::size_t index) const;

  [[nodiscard]] runtime::TraceRing& checkpoint_trace() noexcept { return checkpoint_trace_; }

 private:
  void begin(const Start& start);
  void settle_workers();
  void deliver(const ToRank& message);
  void watch(std::span<const cluster::Progress> ranks);
  void find_rings();
  Session& session_;
  const PipelinePlan& plan_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  runtime::TraceRing checkpoint_trace_{1024};
  std::unique_ptr<caf::actor_system_config> system_config_;
  std::unique_ptr<caf::actor_system> system_;
  std::vector<std::unique_ptr<RankEvents>> inboxes_;  // by hosted rank
  std::unique_ptr<cluster::Links> links_;
  std::unique_ptr<cluster::Exchanges> exchanges_;         // null if no experts are shared
  std::unique_ptr<cluster::Exchanges> replicas_;          // null if no update is divided
  std::vector<std::vector<const cluster::Link*>> rings_;  // by hosted rank: its incoming channels
  std::atomic<bool> rings_known_{false};
  std::vector<caf::actor> rank_actors_;
  caf::actor checkpoint_, coordinator_;
  StallWatch watch_;
};

/// Message types on the control link.
inline constexpr std::uint16_t to_ranks_type = 1, to_coordinator_type = 2;

}  // namespace millrace::actors
