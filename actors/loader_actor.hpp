#pragma once

#include <caf/actor.hpp>

#include "actors/message_actor.hpp"
#include "actors/messages/messages.hpp"
#include "actors/rank/batch_provider.hpp"
#include "actors/rank/rank.hpp"

namespace millrace::actors {

/// Reads the tokens of one rank, a function of (seed, step, microbatch): they do not travel down the pipeline. Fills batch slots when the
/// rank actor says that they are free, and tells it; a step ahead. Spawned detached: its own thread waits for pages that come from a disk.
class LoaderActor : public MessageActor {
 public:
  /// `rank` and `batches` outlive the actor.
  LoaderActor(caf::actor_config& config, Rank& rank, const BatchProvider& batches, caf::actor rank_actor);
  caf::behavior make_behavior() override;
  [[nodiscard]] const char* name() const override { return "loader"; }

 private:
  void load(const LoadBatch& request);
  Rank& rank_;
  const BatchProvider& batches_;
  caf::actor rank_actor_;
};

}  // namespace millrace::actors
