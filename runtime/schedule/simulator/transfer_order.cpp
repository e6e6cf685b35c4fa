#include "runtime/schedule/simulator/transfer_order.hpp"

#include <algorithm>
#include <deque>

#include "kernels/base/check.hpp"
#include "runtime/schedule/simulator/channel_state.hpp"

namespace millrace::runtime {
namespace {

class TransportReplay {
 public:
  TransportReplay(const Placement& placement, const FullTable& table, const TransferModel& model)
      : table_(table), model_(model), channels_(placement, table, model), next_(table.size(), 0), posted_(table.size(), false) {}

  Liveness run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < table_.size(); ++rank) {
        while (next_[rank] < table_[rank].size() && step(rank)) moved = true;
      }
      moved = channels_.match_transfers() || moved;
    }
    return report();
  }

 private:
  using Kind = TransferCell::Kind;

  const TransferCell& cell(std::size_t rank, std::size_t after = 0) const { return table_[rank][next_[rank] + after]; }
  std::size_t size(std::size_t rank) const { return channels_.entry_size(table_[rank], next_[rank]); }
  bool is_at(RankId rank, Kind kind, Boundary boundary) const {
    const std::size_t at = rank.index();
    return next_[at] < table_[at].size() && cell(at).kind == kind && channels_.boundary_of(cell(at)) == boundary;
  }

  void advance(std::size_t rank, std::size_t cells) {
    next_[rank] += cells;
    posted_[rank] = false;
  }

  bool step(std::size_t rank) {
    switch (cell(rank).kind) {
      case Kind::compute:
        return compute(rank);
      case Kind::send:
        return model_.order == TransferOrder::rendezvous ? meet(rank) : send(rank);
      case Kind::receive:
        return model_.order == TransferOrder::rendezvous ? meet(rank) : receive(rank);
    }
    return false;
  }

  bool compute(std::size_t rank) {
    for (std::size_t half = 0; half < size(rank); ++half) {
      const auto in = channels_.input_of(cell(rank, half).action);
      if (in && !channels_.available(*in)) return false;
    }
    const std::size_t cells = size(rank);
    for (std::size_t half = 0; half < cells; ++half) channels_.perform(cell(rank, half).action);
    advance(rank, cells);
    return true;
  }

  bool send(std::size_t rank) {
    const Boundary boundary = channels_.boundary_of(cell(rank));
    if (!channels_.produced(boundary) || channels_.outbox_full(boundary)) return false;
    channels_.post_send(boundary);
    advance(rank, 1);
    return true;
  }

  bool receive(std::size_t rank) {
    const Boundary boundary = channels_.boundary_of(cell(rank));
    const bool first = !posted_[rank];
    if (first) channels_.post_receive(boundary);
    posted_[rank] = true;
    if (!model_.implicit_receives && !channels_.try_receive(boundary)) return first && channels_.uses_rank_queues();
    advance(rank, 1);
    return true;
  }

  // Performs a rendezvous if both lists have reached the transfer.
  bool meet(std::size_t rank) {
    const Boundary boundary = channels_.boundary_of(cell(rank));
    const Edge& edge = channels_.edge(boundary);
    if (!is_at(edge.producer_rank, Kind::send, boundary) || !is_at(edge.consumer_rank, Kind::receive, boundary)) return false;
    if (!channels_.produced(boundary) || !channels_.has_room(boundary)) return false;
    channels_.rendezvous(boundary);
    advance(edge.producer_rank.index(), 1);
    advance(edge.consumer_rank.index(), 1);
    return true;
  }

  // -- messages ----------------------------------------------------------------------------------------------------------

  Liveness report() const {
    std::vector<StuckRank> stuck;
    for (std::size_t rank = 0; rank < table_.size(); ++rank) {
      if (next_[rank] < table_[rank].size()) stuck.push_back(describe(rank));
    }
    return explain(stuck);
  }

  StuckRank describe(std::size_t rank) const {
    StuckRank stuck;
    stuck.rank = RankId{rank};
    stuck.at = size(rank) == 2 ? fmt::format("({};{})", to_string(cell(rank)), to_string(cell(rank, 1))) : to_string(cell(rank));
    stuck.entry = fmt::format("{} (cell {} of {})", stuck.at, next_[rank], table_[rank].size());
    if (cell(rank).kind == Kind::send) return describe_send(std::move(stuck));
    Boundary boundary = cell(rank).kind == Kind::receive ? channels_.boundary_of(cell(rank)) : Boundary{};
    for (std::size_t half = 0; half < size(rank) && cell(rank).kind == Kind::compute; ++half) {
      const auto in = channels_.input_of(cell(rank, half).action);
      if (in && !channels_.available(*in)) boundary = *in;
    }
    return describe_missing(std::move(stuck), boundary);
  }

  std::string name(Boundary boundary) const {
    const Edge& edge = channels_.edge(boundary);
    return fmt::format("{} of microbatch {} from stage {}", to_string(edge.kind), boundary.microbatch, edge.producer);
  }

  StuckRank describe_send(StuckRank stuck) const {
    const Boundary boundary = channels_.boundary_of(cell(stuck.rank.index()));
    const Edge& edge = channels_.edge(boundary);
    if (!channels_.produced(boundary)) {
      stuck.lacks = fmt::format("the {} is not produced before it", name(boundary));
      stuck.waits_for = stuck.rank;
    } else if (model_.order == TransferOrder::rendezvous) {
      stuck.lacks = fmt::format("rank {} has not reached the receive", edge.consumer_rank);
      stuck.waits_for = edge.consumer_rank;
    } else {
      stuck.lacks = fmt::format("the outbox of {} on the {} edge from stage {} to {} is full", model_.outbox, to_string(edge.kind),
                                edge.producer, edge.consumer);
      stuck.waits_for = blocker(channels_.oldest_in_outbox(boundary));
    }
    return stuck;
  }

  StuckRank describe_missing(StuckRank stuck, Boundary boundary) const {
    const Edge& edge = channels_.edge(boundary);
    stuck.lacks = fmt::format("no {}", name(boundary));
    stuck.waits_for = edge.producer_rank;
    if (!channels_.produced(boundary)) {
      const bool ever = channels_.table_produces(boundary);
      stuck.lacks += ever ? fmt::format(", which rank {} produces", edge.producer_rank) : ", which no rank produces";
      if (!ever) stuck.waits_for = no_rank;
    } else if (!channels_.send_posted(boundary)) {
      stuck.lacks += fmt::format(", which rank {} has produced but not sent", edge.producer_rank);
    } else if (channels_.arrived(boundary)) {
      stuck.lacks += ", which has arrived but is not received: another boundary is ahead of it, or there is no receive before this cell";
      stuck.waits_for = stuck.rank;
    } else if (!channels_.has_room(boundary)) {
      stuck.lacks += fmt::format(", which is sent but finds none of the {} slots on its edge free", (*model_.slots)[edge.id.index()]);
      stuck.waits_for = edge.consumer_rank;
    } else {
      stuck.lacks += ", which is sent but waits in a queue";
      stuck.waits_for = blocker(boundary);
    }
    return stuck;
  }

  // The rank whose list must proceed before this sent boundary can move: follows the queues from head to head.
  RankId blocker(Boundary boundary) const {
    for (std::size_t hop = 0; hop <= 2 * table_.size(); ++hop) {
      const Edge& edge = channels_.edge(boundary);
      if (!channels_.has_room(boundary) || !channels_.uses_rank_queues()) return edge.consumer_rank;
      if (const auto ahead = channels_.head_of_queue(boundary, edge.producer_rank)) {
        boundary = *ahead;
      } else if (!channels_.receive_posted(boundary)) {
        return edge.consumer_rank;
      } else if (const auto other = channels_.head_of_queue(boundary, edge.consumer_rank)) {
        boundary = *other;
        if (!channels_.send_posted(boundary)) return channels_.edge(boundary).producer_rank;
      } else {
        return edge.producer_rank;
      }
    }
    return channels_.edge(boundary).producer_rank;
  }

  const FullTable& table_;
  const TransferModel& model_;
  ChannelState channels_;
  std::vector<std::size_t> next_;
  std::vector<bool> posted_;  // by rank: whether the receive at which its list stands is in the queue already
};

}  // namespace

const char* to_string(TransferOrder order) {
  switch (order) {
    case TransferOrder::free:
      return "free";
    case TransferOrder::edge_fifo:
      return "edge-fifo";
    case TransferOrder::direction_fifo:
      return "direction-fifo";
    case TransferOrder::rank_fifo:
      return "rank-fifo";
    case TransferOrder::rendezvous:
      return "rendezvous";
  }
  return "?";
}

Liveness replay_transfers(const Placement& placement, const FullTable& table, const TransferModel& model) {
  return TransportReplay(placement, table, model).run();
}

}  // namespace millrace::runtime
