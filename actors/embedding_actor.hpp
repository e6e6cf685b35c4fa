#pragma once

#include "actors/stage_actor.hpp"

namespace millrace::actors {

/// The first stage: has the embedding besides its layers. That it looks the microbatch's tokens up is in its program. A tied table lies in
/// its shard, and its use of it is the one that norm and checkpoints count (StoredParameter::reported). A stage that is first and last
/// has a HeadActor.
class EmbeddingActor : public StageActor {
 public:
  using StageActor::StageActor;
  [[nodiscard]] const char* name() const override { return "embedding"; }
};

}  // namespace millrace::actors
