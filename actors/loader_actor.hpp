#pragma once

#include <caf/actor.hpp>

#include "actors/message_actor.hpp"
#include "actors/messages/messages.hpp"
#include "actors/rank/batch_provider.hpp"
#include "actors/rank/rank.hpp"

namespace millrace::actors {

/// Reads the tokens of one rank, which are a function of (seed, step, microbatch) and are not sent through the pipeline. Fills
/// batch slots that the rank actor declares free, and notifies it; works one step ahead. Spawned detached: its own thread waits
/// for pages to be read from a disk.
class LoaderActor : public MessageActor {
 public:
  /// `rank` and `batches` must outlive the actor.
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
