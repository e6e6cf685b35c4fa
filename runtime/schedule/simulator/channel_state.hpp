#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "runtime/schedule/simulator/transfer_order.hpp"

namespace millrace::runtime {

/// One boundary: its edge and its microbatch.
struct Boundary {
  EdgeId edge = no_edge;
  MicrobatchId microbatch;
  friend bool operator==(const Boundary&, const Boundary&) = default;
};

/// The location of every boundary in an untimed replay: the channels of a transport model, and what has passed through them.
class ChannelState {
 public:
  /// Checks the table's cells: Error(config) if a cell is on the wrong rank or moves a boundary where there is no edge between
  /// ranks.
  ChannelState(const Placement& placement, const FullTable& table, const TransferModel& model);

  [[nodiscard]] const Edge& edge(Boundary boundary) const { return edges_[boundary.edge.index()]; }
  [[nodiscard]] Boundary boundary_of(const TransferCell& cell) const;
  [[nodiscard]] std::optional<Boundary> input_of(const Action& action) const;
  /// 2 if a pair begins here, else 1.
  [[nodiscard]] std::size_t entry_size(const std::vector<TransferCell>& cells, std::size_t index) const;
  /// Whether several edges share the queues in which transfers wait.
  [[nodiscard]] bool queued() const { return model_.order == TransferOrder::direction_fifo || model_.order == TransferOrder::rank_fifo; }

  // -- actions of the lists ---------------------------------------------------------------------------------------------------
  /// Whether the consumer could use the boundary now.
  [[nodiscard]] bool usable(Boundary boundary) const;
  /// Consumes the input, frees its slot, produces the output.
  void perform(const Action& action);
  void post_send(Boundary boundary);
  void post_receive(Boundary boundary);
  /// Performs a receive of the list if it can: the boundary must be there and, if the channel keeps order, be the next.
  [[nodiscard]] bool take(Boundary boundary);
  /// Moves the boundary immediately.
  void hand_over(Boundary boundary);
  /// Queue models: performs every transfer that is at the head of both its queues; returns whether there was one.
  bool match();

  // -- queries -----------------------------------------------------------------------------------------------------------
  [[nodiscard]] bool made(Boundary boundary) const { return at(boundary).made; }
  [[nodiscard]] bool sent(Boundary boundary) const { return at(boundary).sent; }
  [[nodiscard]] bool came(Boundary boundary) const { return at(boundary).came; }
  [[nodiscard]] bool receive_posted(Boundary boundary) const { return at(boundary).receive_posted; }
  [[nodiscard]] bool is_ever_made(Boundary boundary) const { return at(boundary).has_maker; }
  [[nodiscard]] bool has_room(Boundary boundary) const;
  [[nodiscard]] bool outbox_full(Boundary boundary) const;
  /// The first boundary of the same edge that is posted and has not left.
  [[nodiscard]] Boundary oldest_unsent(Boundary boundary) const;
  /// The boundary in front of this one in the rank's queue.
  [[nodiscard]] std::optional<Boundary> ahead_of(Boundary boundary, RankId rank) const;

 private:
  struct History {
    bool has_maker = false, has_send = false, has_receive = false;  // whether the table contains them
    bool made = false, sent = false, receive_posted = false, came = false, taken = false;
  };
  struct Channel {
    std::deque<MicrobatchId> outbox;  // posted, not yet at the consumer
    std::deque<MicrobatchId> inbox;   // at the consumer, not yet taken
    int used = 0;                     // number of occupied slots
    std::vector<History> boundaries;  // by microbatch
  };
  struct Transfer {
    Boundary boundary;
    bool send = false;
    friend bool operator==(const Transfer&, const Transfer&) = default;
  };

  [[nodiscard]] History& at(Boundary boundary) { return channels_[boundary.edge.index()].boundaries[boundary.microbatch.index()]; }
  [[nodiscard]] const History& at(Boundary boundary) const {
    return channels_[boundary.edge.index()].boundaries[boundary.microbatch.index()];
  }
  void note_cell(std::size_t rank, const TransferCell& cell);
  void check_cell(std::size_t rank, const TransferCell& cell) const;
  void pump(EdgeId edge);
  [[nodiscard]] bool in_reach(Boundary boundary) const;
  void arrive(Boundary boundary);
  [[nodiscard]] std::deque<Transfer>& queue(RankId rank, Boundary boundary);
  [[nodiscard]] const std::deque<Transfer>& queue(RankId rank, Boundary boundary) const;

  const Placement& placement_;
  const TransferModel& model_;
  std::vector<Edge> edges_;
  std::vector<Channel> channels_;             // by edge
  std::vector<std::deque<Transfer>> queues_;  // two per rank: activations, gradients; with one queue per rank only the first is used
};

}  // namespace millrace::runtime
