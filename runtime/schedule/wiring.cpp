#include "runtime/schedule/wiring.hpp"

namespace millrace::runtime {

Wiring::Wiring(const Schedule& schedule)
    : edges(edges_of(schedule.placement)),
      forward_only(schedule.forward_only()),
      order_(schedule.order()),
      ports_(static_cast<std::size_t>(schedule.placement.stages())) {
  for (const Edge& edge : edges) {
    const bool activation = edge.kind == BoundaryKind::activation;
    Ports& producer = ports_[edge.producer.index()];
    Ports& consumer = ports_[edge.consumer.index()];
    (activation ? producer.activation_out : producer.gradient_out) = edge.id.value;
    (activation ? consumer.activation_in : consumer.gradient_in) = edge.id.value;
  }
  for (int stage = 0; stage < schedule.placement.stages(); ++stage)
    ports_[static_cast<std::size_t>(stage)].replica = schedule.placement.replica_of(StageId{stage});
}

}  // namespace millrace::runtime
