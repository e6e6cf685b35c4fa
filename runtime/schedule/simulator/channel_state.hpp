#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "runtime/schedule/simulator/transfer_order.hpp"

namespace millrace::runtime {

/// One tensor that passes between two stages: the activation or the gradient of a microbatch on an edge.
struct Boundary {
  EdgeId edge = no_edge;
  MicrobatchId microbatch;
  friend bool operator==(const Boundary&, const Boundary&) = default;
};

/// The channels of a transport model during a replay without times: which boundaries are produced, which sends are posted, what has arrived
/// and what was received.
class ChannelState {
 public:
  /// Throws Error(config) if the table does not have one list per rank, if a cell is on the wrong rank, has a negative microbatch, repeats
  /// for a boundary what another cell does, or moves a boundary where there is no edge between two ranks; and Error(internal) if the number
  /// of slot counts is not that of the edges. `placement` and `model` must outlive this object.
  ChannelState(const Placement& placement, const FullTable& table, const TransferModel& model);

  [[nodiscard]] const Edge& edge(Boundary boundary) const { return edges_[boundary.edge.index()]; }
  /// The boundary that a send or receive cell moves.
  [[nodiscard]] Boundary boundary_of(const TransferCell& cell) const;
  /// The boundary that an action consumes, if any.
  [[nodiscard]] std::optional<Boundary> input_of(const Action& action) const;
  /// The number of cells of the entry at `index`: 2 for an overlapped pair, else 1.
  [[nodiscard]] std::size_t entry_size(const std::vector<TransferCell>& cells, std::size_t index) const;
  /// Whether sends and receives wait in queues per rank, which several edges share.
  [[nodiscard]] bool uses_rank_queues() const {
    return model_.order == TransferOrder::direction_fifo || model_.order == TransferOrder::rank_fifo;
  }

  // -- operations of the replay ------------------------------------------------------------------------------------------------
  /// Whether the consumer's action could run now, as far as this input is concerned.
  [[nodiscard]] bool available(Boundary boundary) const;
  /// Runs an action whose input is available: consumes it, which frees its slot unless the edge is local, and produces the output.
  void perform(const Action& action);
  void post_send(Boundary boundary);
  void post_receive(Boundary boundary);
  /// Completes a receive and returns true if the boundary has arrived and, where the edge keeps order, is the first that has.
  [[nodiscard]] bool try_receive(Boundary boundary);
  /// Rendezvous: sends and receives the boundary in one step.
  void rendezvous(Boundary boundary);
  /// Queue models: goes over the queues once and performs the transfers that are at the head of both ends' queues. Returns whether there
  /// was one; one may make room for others, so call it until it returns false.
  bool match_transfers();

  // -- queries -----------------------------------------------------------------------------------------------------------
  [[nodiscard]] bool produced(Boundary boundary) const { return at(boundary).produced; }
  [[nodiscard]] bool send_posted(Boundary boundary) const { return at(boundary).send_posted; }
  [[nodiscard]] bool arrived(Boundary boundary) const { return at(boundary).arrived; }
  [[nodiscard]] bool receive_posted(Boundary boundary) const { return at(boundary).receive_posted; }
  [[nodiscard]] bool table_produces(Boundary boundary) const { return at(boundary).has_producer; }
  [[nodiscard]] bool has_room(Boundary boundary) const;
  [[nodiscard]] bool outbox_full(Boundary boundary) const;
  /// The oldest boundary of the same edge whose send is posted and which has not arrived. There must be one.
  [[nodiscard]] Boundary oldest_in_outbox(Boundary boundary) const;
  /// The boundary at the head of the rank's queue, unless it is this one.
  [[nodiscard]] std::optional<Boundary> head_of_queue(Boundary boundary, RankId rank) const;

 private:
  struct Progress {
    bool has_producer = false, has_consumer = false, has_send = false, has_receive = false;  // whether the table has such a cell
    bool produced = false, send_posted = false, receive_posted = false, arrived = false, received = false;
  };
  struct Channel {
    std::deque<MicrobatchId> outbox;  // posted, not yet at the consumer
    std::deque<MicrobatchId> inbox;   // at the consumer, not yet received
    int occupied_slots = 0;
    std::vector<Progress> boundaries;  // by microbatch
  };
  struct QueuedEnd {
    Boundary boundary;
    bool is_send = false;
    friend bool operator==(const QueuedEnd&, const QueuedEnd&) = default;
  };

  [[nodiscard]] Progress& at(Boundary boundary) { return channels_[boundary.edge.index()].boundaries[boundary.microbatch.index()]; }
  [[nodiscard]] const Progress& at(Boundary boundary) const {
    return channels_[boundary.edge.index()].boundaries[boundary.microbatch.index()];
  }
  void record_cell(std::size_t rank, const TransferCell& cell);
  void check_cell(std::size_t rank, const TransferCell& cell) const;
  void deliver(EdgeId edge);
  [[nodiscard]] bool can_be_received(Boundary boundary) const;
  void arrive(Boundary boundary);
  [[nodiscard]] std::deque<QueuedEnd>& queue(RankId rank, Boundary boundary);
  [[nodiscard]] const std::deque<QueuedEnd>& queue(RankId rank, Boundary boundary) const;

  const Placement& placement_;
  const TransferModel& model_;
  std::vector<Edge> edges_;
  std::vector<Channel> channels_;              // by edge
  std::vector<std::deque<QueuedEnd>> queues_;  // two per rank, of activations and of gradients; rank_fifo uses the first alone
};

}  // namespace millrace::runtime
