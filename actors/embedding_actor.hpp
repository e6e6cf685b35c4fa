#pragma once

#include "actors/stage_actor.hpp"

namespace millrace::actors {

/// The first stage: it looks the microbatch's tokens up in its table, and where the table is tied to a head on another rank its rank speaks
/// for the table: its sum is the one that counts in the norm, its copy the one that checkpoints hold.
class EmbeddingActor : public StageActor {
 public:
  using StageActor::StageActor;
  [[nodiscard]] const char* name() const override { return "embedding"; }
};

}  // namespace millrace::actors
