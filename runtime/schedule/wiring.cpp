#include "runtime/schedule/wiring.hpp"

namespace millrace::runtime {

Wiring::Wiring(const Schedule& schedule)
    : edges(edges_of(schedule.placement)),
      forward_only(schedule.forward_only()),
      ports_(static_cast<std::size_t>(schedule.placement.stages())) {
  for (const Edge& edge : edges) {
    const bool activation = edge.kind == BoundaryKind::activation;
    Ports& producer = ports_[edge.producer.index()];
    Ports& consumer = ports_[edge.consumer.index()];
    (activation ? producer.activation_out : producer.gradient_out) = edge.id.value;
    (activation ? consumer.activation_in : consumer.gradient_in) = edge.id.value;
  }
  for (int stage = 0; stage < schedule.placement.stages(); ++stage) {
    first_microbatch.push_back(schedule.first_microbatch(StageId{stage}).value);
  }
}

}  // namespace millrace::runtime
