#pragma once

#include "actors/stage_actor.hpp"

namespace millrace::actors {

/// The last stage: has the final norm and the output head besides its layers. Norm, head and loss are in its program. What its lists leave
/// for the coordinator is read by actors/rank/list_results.hpp. Where its table is tied to the embedding of another rank, its shard has
/// a replica; where the embedding is on the same rank, it reads the table in that shard, and has only its gradient sum in its own.
class HeadActor : public StageActor {
 public:
  using StageActor::StageActor;
  [[nodiscard]] const char* name() const override { return "head"; }
};

}  // namespace millrace::actors
