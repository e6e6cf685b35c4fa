#pragma once

#include "actors/stage_actor.hpp"

namespace millrace::actors {

/// A stage with the experts of one layer, apart from the layer's attention (`f` in a layout): router, experts and shared expert, with their
/// norms and residual connection. With mesh.expert its shard has the experts that its rank owns; its rows come from, and go to, the actors
/// at the same position of the other copies.
class ExpertActor : public StageActor {
 public:
  using StageActor::StageActor;
  [[nodiscard]] const char* name() const override { return "expert"; }
};

}  // namespace millrace::actors
