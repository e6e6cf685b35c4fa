#pragma once

#include "actors/stage_actor.hpp"

namespace millrace::actors {

/// The last stage: owns the output head and the final norm besides its layers. Norm, head and loss are in its program. What its lists leave
/// for the coordinator is read by actors/rank/head_results.hpp. Where its table is tied to the embedding of another rank, it updates a
/// copy.
class HeadActor : public StageActor {
 public:
  using StageActor::StageActor;
  [[nodiscard]] const char* name() const override { return "head"; }
};

}  // namespace millrace::actors
