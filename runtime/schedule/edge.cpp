#include "runtime/schedule/edge.hpp"

namespace millrace::runtime {

const char* to_string(BoundaryKind kind) { return kind == BoundaryKind::activation ? "activation" : "gradient"; }

std::vector<Edge> edges_of(const Placement& placement) {
  std::vector<Edge> edges;
  for (BoundaryKind kind : {BoundaryKind::activation, BoundaryKind::gradient}) {
    for (int stage = 0; stage < placement.stages(); ++stage) {
      const StageId lower{stage};
      if (!placement.next(lower)) continue;
      const StageId upper = *placement.next(lower);
      Edge edge;
      edge.id = EdgeId{edges.size()};
      edge.kind = kind;
      edge.producer = kind == BoundaryKind::activation ? lower : upper;
      edge.consumer = kind == BoundaryKind::activation ? upper : lower;
      edge.producer_rank = placement.rank_of(edge.producer);
      edge.consumer_rank = placement.rank_of(edge.consumer);
      edges.push_back(edge);
    }
  }
  return edges;
}

namespace {

// Index of the boundary between `lower` and the next stage among all boundaries: each earlier replica has one boundary fewer than
// stages.
int boundary_above(const Placement& placement, StageId lower) { return lower.value - placement.replica_of(lower); }

}  // namespace

std::optional<EdgeId> edge_into(const Placement& placement, StageId consumer, BoundaryKind kind) {
  if (kind == BoundaryKind::activation) {
    const auto before = placement.previous(consumer);
    return before ? std::optional<EdgeId>(EdgeId{boundary_above(placement, *before)}) : std::nullopt;
  }
  if (!placement.next(consumer)) return std::nullopt;
  const int boundaries = placement.stages() - placement.replicas();
  return EdgeId{boundaries + boundary_above(placement, consumer)};
}

std::optional<EdgeId> edge_out_of(const Placement& placement, const Action& action) {
  if (action.kind == ActionKind::forward) {
    const auto after = placement.next(action.stage);
    return after ? edge_into(placement, *after, BoundaryKind::activation) : std::nullopt;
  }
  const auto before = placement.previous(action.stage);
  if (!makes_gradient(action.kind) || !before) return std::nullopt;
  return edge_into(placement, *before, BoundaryKind::gradient);
}

}  // namespace millrace::runtime
