#pragma once

#include "actors/stage_actor.hpp"

namespace millrace::actors {

/// The first stage: it looks the microbatch's tokens up in its table, and where the table is tied to a head on another rank it speaks for
/// the table: its sum is the one that counts in the norm, its copy the one that checkpoints hold.
class EmbeddingActor : public StageActor {
 public:
  using StageActor::StageActor;
  [[nodiscard]] const char* name() const override { return "embedding"; }

 protected:
  /// Sends use 0 to the head's rank.
  void exchange_tied() override;
};

}  // namespace millrace::actors
