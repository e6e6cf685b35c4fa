#pragma once

#include "actors/stage_actor.hpp"

namespace millrace::actors {

/// A stage with modules of multi-token prediction, which has no head (layers/models/mtp.hpp): receives the residual stream of the last
/// decoder layer, and hands it on beside the streams of its modules. Its shard has the modules' norms, projections and decoder layers. It
/// embeds the shifted tokens with the embedding's table: where that is on another rank, its shard has a replica; where it is on the same
/// rank, it reads the table there, and has only the gradient sum of its use in its own. A stage with modules and the head has a HeadActor.
class MtpActor : public StageActor {
 public:
  using StageActor::StageActor;
  [[nodiscard]] const char* name() const override { return "mtp"; }
};

}  // namespace millrace::actors
