#pragma once

#include <optional>
#include <vector>

#include "runtime/schedule/full_table.hpp"
#include "runtime/schedule/wait_graph.hpp"

namespace millrace::runtime {

/// The order that a transport keeps among the transfers of a rank.
enum class Transport : std::uint8_t {
  free,            // none: receives find their token by its tag
  edge_fifo,       // first in, first out on every edge
  direction_fifo,  // a rank has a queue of its activations and one of its gradients, sends and receives alike; a transfer happens when it
                   // heads both ends' queues
  rank_fifo,       // one queue of both: what a batched group of sends and receives on one communicator amounts to
  rendezvous,      // no queue: a send stands in the list until the other rank's list has come to the receive
};
[[nodiscard]] const char* to_string(Transport transport);

/// How the transfers of a full table are carried out.
struct TransportModel {
  Transport transport = Transport::edge_fifo;
  /// False: a receive stands in its rank's list until its token is there. True: it only says that the token may come; who needs the
  /// token waits. A rendezvous has no implicit receives.
  bool implicit_receives = false;
  /// By EdgeId: tokens that have reached the consumer and are not used yet. A slot comes back at the end of the action that the token
  /// was for. Nothing: unbounded.
  std::optional<std::vector<int>> slots;
  /// Sends of one edge that may stand unfinished before the next one blocks its list; 0: unbounded. No matter to a rendezvous.
  int outbox = 0;
};

/// Replays a full table of `placement` without times. Ranks are in-order, channels are queues and nothing branches on timing, so what
/// comes out holds for all durations and latencies. In the queue models (direction, rank) a receive enters its queue when the list comes
/// to it. The table may be anything, also broken; Error(config) only where a cell stands on the wrong rank, moves a token over no edge
/// between ranks, or does for a token what another cell has done.
[[nodiscard]] Liveness replay_transport(const Placement& placement, const FullTable& table, const TransportModel& model);

}  // namespace millrace::runtime
