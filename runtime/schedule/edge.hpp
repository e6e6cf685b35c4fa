#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/schedule/action.hpp"
#include "runtime/schedule/placement.hpp"

namespace millrace::runtime {

/// The kind of a boundary tensor: an activation for the next stage, or a gradient for the previous one.
enum class BoundaryKind : std::uint8_t { activation, gradient };

[[nodiscard]] const char* to_string(BoundaryKind kind);

/// One direction between two neighbouring stages. An edge is implemented by a channel: a FIFO ring of `depth` slots. The boundary
/// tensors of an edge carry consecutive sequence numbers over the whole run; number q lies in slot q mod depth.
struct Edge {
  EdgeId id;
  BoundaryKind kind = BoundaryKind::activation;
  StageId producer;
  StageId consumer;
  RankId producer_rank;
  RankId consumer_rank;
  /// True if both stages are on one rank: then the tensor is handed over in list order, without a message.
  [[nodiscard]] bool local() const { return producer_rank == consumer_rank; }
};

/// All edges of a placement: activation edges by producing stage, then gradient edges by consuming stage. edges[i].id == i.
[[nodiscard]] std::vector<Edge> edges_of(const Placement& placement);

/// The edge by which `consumer` receives its activation (nothing for the first stage) or its gradient (nothing for the last).
[[nodiscard]] std::optional<EdgeId> edge_into(const Placement& placement, StageId consumer, BoundaryKind kind);

/// The edge for an action's output: an activation edge for F, a gradient edge for I and B, nothing for W and at the ends of the
/// pipeline.
[[nodiscard]] std::optional<EdgeId> edge_out_of(const Placement& placement, const Action& action);

}  // namespace millrace::runtime
