#pragma once

#include <caf/actor.hpp>
#include <functional>
#include <memory>
#include <string>

#include "actors/coordinator.hpp"
#include "actors/message_actor.hpp"
#include "actors/run_report.hpp"

namespace millrace::actors {

/// What the coordinator's actor needs; everything is in process 0 and must outlive the actor.
struct CoordinatorActorSetup {
  CoordinatorSetup coordinator;
  RunReport* reporter = nullptr;
  std::uint64_t state_bytes = 0;  // of a whole checkpoint
  std::function<void(const ToRank&)> to_ranks;
  caf::actor checkpoint;
  std::function<std::string(const std::vector<std::int32_t>&)> text_of;  // converts a sample to text
  std::function<bool()> stop_requested;
  std::function<void(ExitCode, const std::string&)> finished;  // called once, on the actor's thread
};

/// The actor around the coordinator: receives messages, sends phases to all ranks, lines to the reporter and commits to the
/// checkpoint actor. Spawned detached: on a thread of its own it waits for the disk, namely for the folder of a checkpoint and
/// for the lines of metrics.jsonl.
class CoordinatorActor : public MessageActor, private CoordinatorPort {
 public:
  CoordinatorActor(caf::actor_config& config, CoordinatorActorSetup setup);
  caf::behavior make_behavior() override;
  [[nodiscard]] const char* name() const override { return "coordinator"; }

 private:
  void to_ranks(const ToRank& message) override;
  void ready(std::uint64_t planned_bytes) override;
  CheckpointAttempt begin_checkpoint(std::int64_t step) override;
  void commit_checkpoint(std::int64_t step, std::vector<std::string> reports) override;
  void discard_checkpoint(std::int64_t step, const std::string& why) override;
  void step_done(const StepRecord& record) override { setup_.reporter->step(record); }
  void evaluated(const EvaluationRecord& record) override;
  void sampled(const std::vector<std::int32_t>& tokens) override { setup_.reporter->sample(setup_.text_of(tokens)); }
  bool stop_requested() override { return setup_.stop_requested && setup_.stop_requested(); }
  std::int64_t now() override;
  void finished(ExitCode code, const std::string& message) override;

  CoordinatorActorSetup setup_;
  Coordinator coordinator_;
  std::string attempt_;  // folder of the checkpoint in progress
};

}  // namespace millrace::actors
