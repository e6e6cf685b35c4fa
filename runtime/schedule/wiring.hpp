#pragma once

#include <cstdint>
#include <vector>

#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// The edges of each stage of a schedule as indices in arrays, for passes over millions of actions; −1 means no edge.
class Wiring {
 public:
  explicit Wiring(const Schedule& schedule);

  std::vector<Edge> edges;  // by EdgeId
  bool forward_only = false;

  /// The microbatch to which boundary k of the stage's edges belongs, and k of a microbatch.
  [[nodiscard]] MicrobatchId microbatch_of(StageId stage, int k) const {
    return MicrobatchId{order_.microbatch(ports_[stage.index()].replica, k)};
  }
  [[nodiscard]] int ordinal_of(MicrobatchId microbatch) const { return static_cast<int>(order_.ordinal(microbatch.value)); }

  [[nodiscard]] std::int32_t activation_into(StageId stage) const { return ports_[stage.index()].activation_in; }
  [[nodiscard]] std::int32_t gradient_into(StageId stage) const { return ports_[stage.index()].gradient_in; }
  /// The edge of the boundary that the action waits for.
  [[nodiscard]] std::int32_t input(const Action& action) const {
    if (action.kind == ActionKind::weight_gradient) return -1;
    return action.kind == ActionKind::forward ? activation_into(action.stage) : gradient_into(action.stage);
  }
  /// The edge of the action's output.
  [[nodiscard]] std::int32_t output(const Action& action) const {
    if (action.kind == ActionKind::weight_gradient) return -1;
    const Ports& ports = ports_[action.stage.index()];
    return action.kind == ActionKind::forward ? ports.activation_out : ports.gradient_out;
  }

 private:
  struct Ports {
    std::int32_t activation_in = -1, activation_out = -1, gradient_in = -1, gradient_out = -1;
    std::int32_t replica = 0;
  };
  GlobalOrder order_;
  std::vector<Ports> ports_;  // by StageId
};

}  // namespace millrace::runtime
