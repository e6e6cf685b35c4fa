#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/schedule/action.hpp"
#include "runtime/schedule/placement.hpp"

namespace millrace::runtime {

/// What travels: an activation to the next stage, or a gradient to the previous one.
enum class BoundaryKind : std::uint8_t { activation, gradient };

[[nodiscard]] const char* to_string(BoundaryKind kind);

/// One direction between two neighbouring stages. An edge is a channel: a ring of `depth` slots, first in first out;
/// the tokens of one edge carry consecutive sequence numbers over the whole run, and token q lies in slot q mod depth.
struct Edge {
  EdgeId id;
  BoundaryKind kind = BoundaryKind::activation;
  StageId producer;
  StageId consumer;
  RankId producer_rank;
  RankId consumer_rank;
  /// Both stages on one rank: a hand-off in list order, no message.
  [[nodiscard]] bool local() const { return producer_rank == consumer_rank; }
};

/// All edges of a placement: activation edges by producing stage, then gradient edges by consuming stage. edges[i].id == i.
[[nodiscard]] std::vector<Edge> edges_of(const Placement& placement);

/// The edge by which `consumer` gets its activation (nothing for the first stage) or its gradient (nothing for the last).
[[nodiscard]] std::optional<EdgeId> edge_into(const Placement& placement, StageId consumer, BoundaryKind kind);

/// The edge that an action's output takes: F an activation edge, I and B a gradient edge, nothing at the ends and for W.
[[nodiscard]] std::optional<EdgeId> edge_out_of(const Placement& placement, const Action& action);

}  // namespace millrace::runtime
