#pragma once

#include <array>
#include <caf/actor.hpp>
#include <memory>
#include <optional>
#include <string>

#include "actors/messages/messages.hpp"
#include "actors/rank/rank.hpp"
#include "actors/worker_actor.hpp"

namespace millrace::actors {

/// A decoder stage: owns its shard (parameters, gradient sums, optimizer states) and its programs, and runs what its rank has decided, on
/// the rank's compute worker. Reports every action that is done to the rank actor. At the end of a step the rank's worker puts the work on
/// the shards of its stages in order (RankTasks). When the actor ends, it gives its stage back to the rank.
class StageActor : public WorkerActor {
 public:
  /// `rank` must outlive the actor.
  StageActor(caf::actor_config& config, Rank& rank, runtime::StageId stage, caf::actor rank_actor);
  caf::behavior make_behavior() override;
  void on_exit() override;
  [[nodiscard]] const char* name() const override { return "stage"; }

 private:
  void execute(const Execute& execute);
  void enqueue_pass(const Execute& execute);
  void device_failed(const Execute& execute, const Error& error);
  void done(const runtime::Action& action, std::int32_t segment, std::int64_t host, const Completion& completion);

  Rank& rank_;
  std::unique_ptr<runtime::Stage> stage_;
  caf::actor rank_actor_;
  std::array<std::string, 4> fault_points_;  // "stage1.forward" …: where a test may slow down, stop or kill this stage
  std::optional<Error> failure_;             // the first error of the device
};

/// Spawns the actor of a stage of `rank`: embedding, decoder stage, experts of a layer, modules of multi-token prediction or head. A
/// further kind is a class and a line in stage_actor.cpp.
[[nodiscard]] caf::actor spawn_stage_actor(caf::event_based_actor& rank_actor, Rank& rank, runtime::StageId stage);

}  // namespace millrace::actors
