#pragma once

#include <optional>
#include <vector>

#include "runtime/schedule/full_table.hpp"
#include "runtime/schedule/wait_graph.hpp"

namespace millrace::runtime {

/// The order that a transport imposes on the transfers of a rank.
enum class TransferOrder : std::uint8_t {
  free,            // none: receives find their boundary by its tag
  edge_fifo,       // each edge is a FIFO
  direction_fifo,  // a rank has one queue for activations and one for gradients, with sends and receives; a transfer happens when it
                   // is at the head of both ends' queues
  rank_fifo,       // one queue for both: the effect of a batched group of sends and receives on one communicator
  rendezvous,      // no queue: a send blocks its list until the other rank's list has reached the receive
};
[[nodiscard]] const char* to_string(TransferOrder order);

/// How the transfers of a full table are carried out.
struct TransferModel {
  TransferOrder order = TransferOrder::edge_fifo;
  /// False: a receive blocks its rank's list until the boundary has arrived. True: a receive only permits the arrival, and the
  /// action that needs the boundary waits. A rendezvous has no implicit receives.
  bool implicit_receives = false;
  /// By EdgeId: slots for boundaries that have reached the consumer and are not used yet. A slot is freed at the end of the
  /// action that uses it. Not set: unbounded.
  std::optional<std::vector<int>> slots;
  /// Number of unfinished sends of one edge at which a further send blocks its list; 0: unbounded. Ignored by a rendezvous.
  int outbox = 0;
};

/// Replays a full table of `placement` without times. Ranks run in order, channels are queues and nothing depends on timing, so
/// the result holds for all durations and latencies. In the queue models (direction, rank) a receive enters its queue when the
/// list reaches it. The table may be arbitrary, even broken; Error(config) only if a cell is on the wrong rank, moves a boundary
/// where there is no edge between ranks, or repeats for a boundary what another cell has done.
[[nodiscard]] Liveness replay_transfers(const Placement& placement, const FullTable& table, const TransferModel& model);

}  // namespace millrace::runtime
