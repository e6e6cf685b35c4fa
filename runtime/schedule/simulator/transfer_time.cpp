#include "runtime/schedule/simulator/transfer_time.hpp"

#include <algorithm>
#include <deque>
#include <limits>

#include "kernels/base/check.hpp"
#include "runtime/schedule/wiring.hpp"

namespace millrace::runtime {
namespace {

constexpr double no_time = -1;
using Kind = TransferCell::Kind;

// The transfer of a boundary: when each end has posted it, and when it has arrived.
struct Transfer {
  double sent = no_time, received = no_time, arrived = no_time;
};

// Posted transfers in order, by boundary, and the time at which the latest completed one left the queue.
struct Queue {
  std::deque<std::size_t> waiting;
  double free = 0;
};

class TimedReplay {
 public:
  TimedReplay(const Schedule& schedule, const std::vector<StageCost>& costs, double latency, TransferOrder order)
      : table_(full_table(schedule)),
        costs_(costs),
        latency_(latency),
        order_(order),
        wiring_(schedule),
        microbatches_(static_cast<std::size_t>(schedule.microbatches)),
        transfers_(wiring_.edges.size() * microbatches_),
        queues_(2 * (order == TransferOrder::edge_fifo ? wiring_.edges.size()
                     : order == TransferOrder::free    ? transfers_.size()
                                                       : table_.size())),
        next_(table_.size(), 0),
        now_(table_.size(), 0) {}

  double run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < table_.size(); ++rank) {
        while (next_[rank] < table_[rank].size() && step(rank)) moved = true;
      }
      for (Queue& queue : queues_) {
        while (!queue.waiting.empty() && go(queue.waiting.front())) moved = true;
      }
    }
    for (std::size_t rank = 0; rank < table_.size(); ++rank) {
      MILLRACE_CHECK(next_[rank] == table_[rank].size(), ExitCode::config, "runtime.schedule",
                     "rank {} stops before its cell {}: the queues of {} wait for each other", rank, next_[rank], to_string(order_));
    }
    return *std::max_element(now_.begin(), now_.end());
  }

 private:
  std::size_t boundary(std::int32_t edge, MicrobatchId m) const { return static_cast<std::size_t>(edge) * microbatches_ + m.index(); }
  std::size_t boundary(const TransferCell& cell) const {
    const bool activation = cell.boundary == BoundaryKind::activation;
    if (cell.kind == Kind::receive) {
      return boundary(activation ? wiring_.activation_into(cell.stage) : wiring_.gradient_into(cell.stage), cell.microbatch);
    }
    const Action maker{cell.stage, activation ? ActionKind::forward : ActionKind::backward, cell.microbatch};
    return boundary(wiring_.output(maker), cell.microbatch);
  }

  // The queue at one end of a transfer.
  Queue& queue(std::size_t boundary, bool send) {
    const Edge& edge = wiring_.edges[boundary / microbatches_];
    const std::size_t rank = (send ? edge.producer_rank : edge.consumer_rank).index();
    switch (order_) {
      case TransferOrder::rank_fifo:
        return queues_[2 * rank];
      case TransferOrder::direction_fifo:
        return queues_[2 * rank + (edge.kind == BoundaryKind::gradient ? 1 : 0)];
      case TransferOrder::edge_fifo:
        return queues_[2 * edge.id.index() + (send ? 1 : 0)];
      default:
        return queues_[2 * boundary + (send ? 1 : 0)];
    }
  }

  bool step(std::size_t rank) {
    const TransferCell& cell = table_[rank][next_[rank]];
    if (cell.kind == Kind::compute) return compute(rank);
    const std::size_t posted = boundary(cell);
    const bool send = cell.kind == Kind::send;
    (send ? transfers_[posted].sent : transfers_[posted].received) = now_[rank];
    queue(posted, send).waiting.push_back(posted);
    ++next_[rank];
    return true;
  }

  bool compute(std::size_t rank) {
    const std::size_t size = table_[rank][next_[rank]].action.overlaps_next ? 2 : 1;
    double begin = now_[rank];
    double duration = 0;
    for (std::size_t half = 0; half < size; ++half) {
      const Action& action = table_[rank][next_[rank] + half].action;
      duration += costs_[action.stage.index()].of(action.kind);
      const std::int32_t in = wiring_.input(action);
      if (in < 0) continue;
      const double arrived = transfers_[boundary(in, action.microbatch)].arrived;
      if (arrived == no_time) return false;
      begin = std::max(begin, arrived);
    }
    now_[rank] = begin + duration;
    for (std::size_t half = 0; half < size; ++half) {
      const Action& action = table_[rank][next_[rank]++].action;
      const std::int32_t out = wiring_.output(action);
      if (out >= 0 && wiring_.edges[static_cast<std::size_t>(out)].local())
        transfers_[boundary(out, action.microbatch)].arrived = now_[rank];
    }
    return true;
  }

  // Performs the transfer if it is at the head of both queues.
  bool go(std::size_t boundary) {
    Transfer& transfer = transfers_[boundary];
    if (transfer.sent == no_time || transfer.received == no_time) return false;
    Queue& from = queue(boundary, true);
    Queue& to = queue(boundary, false);
    if (from.waiting.front() != boundary || to.waiting.front() != boundary) return false;
    transfer.arrived = std::max({transfer.sent, transfer.received, from.free, to.free}) + latency_;
    for (Queue* end : {&from, &to}) {
      end->waiting.pop_front();
      end->free = transfer.arrived;
    }
    return true;
  }

  const FullTable table_;
  const std::vector<StageCost>& costs_;
  const double latency_;
  const TransferOrder order_;
  const Wiring wiring_;
  const std::size_t microbatches_;
  std::vector<Transfer> transfers_;  // by edge and microbatch
  std::vector<Queue> queues_;        // two per rank, edge or boundary
  std::vector<std::size_t> next_;
  std::vector<double> now_;
};

}  // namespace

double transfer_makespan(const Schedule& schedule, const std::vector<StageCost>& costs, double latency, TransferOrder order) {
  MILLRACE_CHECK(order != TransferOrder::rendezvous, ExitCode::config, "runtime.schedule",
                 "the transfer order {} has no queues to time; expected free, edge-fifo, direction-fifo or rank-fifo", to_string(order));
  MILLRACE_CHECK(static_cast<int>(costs.size()) == schedule.placement.stages(), ExitCode::internal, "runtime.schedule",
                 "{} stage costs, expected {}", costs.size(), schedule.placement.stages());
  return TimedReplay(schedule, costs, latency, order).run();
}

}  // namespace millrace::runtime
