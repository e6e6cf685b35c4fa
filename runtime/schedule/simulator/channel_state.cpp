#include "runtime/schedule/simulator/channel_state.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"

namespace millrace::runtime {
namespace {

// Any action whose boundary has the kind and microbatch of the transfer's.
Action producer_like(const TransferCell& cell) {
  return {cell.stage, cell.boundary == BoundaryKind::activation ? ActionKind::forward : ActionKind::input_gradient, cell.microbatch};
}

}  // namespace

ChannelState::ChannelState(const Placement& placement, const FullTable& table, const TransferModel& model)
    : placement_(placement), model_(model), edges_(edges_of(placement)), channels_(edges_.size()), queues_(2 * table.size()) {
  MILLRACE_CHECK(static_cast<int>(table.size()) == placement.ranks(), ExitCode::config, schedule_component,
                 "the full table has {} lists, expected one for each of {} ranks", table.size(), placement.ranks());
  MILLRACE_CHECK(!model.slots || model.slots->size() == edges_.size(), ExitCode::internal, schedule_component,
                 "{} slot counts, expected one for each of {} edges", model.slots ? model.slots->size() : 0, edges_.size());
  int last = -1;
  for (std::size_t rank = 0; rank < table.size(); ++rank) {
    for (const TransferCell& cell : table[rank]) {
      check_cell(rank, cell);
      last = std::max({last, cell.microbatch.value, cell.action.microbatch.value});
    }
  }
  for (Channel& channel : channels_) channel.boundaries.resize(static_cast<std::size_t>(last + 1));
  for (std::size_t rank = 0; rank < table.size(); ++rank) {
    for (const TransferCell& cell : table[rank]) record_cell(rank, cell);
  }
}

void ChannelState::record_cell(std::size_t rank, const TransferCell& cell) {
  const auto record = [&](bool& there) {
    MILLRACE_CHECK(!there, ExitCode::config, schedule_component, "rank {}, cell {}: a second such cell for the same boundary", rank,
                   to_string(cell));
    there = true;
  };
  switch (cell.kind) {
    case TransferCell::Kind::compute:
      if (const auto out = edge_out_of(placement_, cell.action)) record(at({*out, cell.action.microbatch}).has_producer);
      if (const auto in = input_of(cell.action)) record(at(*in).has_consumer);
      return;
    case TransferCell::Kind::send:
      return record(at(boundary_of(cell)).has_send);
    case TransferCell::Kind::receive:
      return record(at(boundary_of(cell)).has_receive);
  }
}

void ChannelState::check_cell(std::size_t rank, const TransferCell& cell) const {
  const bool compute = cell.kind == TransferCell::Kind::compute;
  const StageId stage = compute ? cell.action.stage : cell.stage;
  MILLRACE_CHECK(stage.value >= 0 && stage.value < placement_.stages() && placement_.rank_of(stage) == RankId{rank}, ExitCode::config,
                 schedule_component, "rank {}, cell {}: stage {} does not belong to this rank", rank, to_string(cell), stage);
  MILLRACE_CHECK((compute ? cell.action.microbatch : cell.microbatch).value >= 0, ExitCode::config, schedule_component,
                 "rank {}, cell {}: the microbatch is negative", rank, to_string(cell));
  if (compute) return;
  const bool exists = cell.kind == TransferCell::Kind::send ? edge_out_of(placement_, producer_like(cell)).has_value()
                                                            : edge_into(placement_, cell.stage, cell.boundary).has_value();
  MILLRACE_CHECK(exists && !edge(boundary_of(cell)).local(), ExitCode::config, schedule_component,
                 "rank {}, cell {}: no {} is transferred between two ranks here", rank, to_string(cell), to_string(cell.boundary));
}

Boundary ChannelState::boundary_of(const TransferCell& cell) const {
  if (cell.kind == TransferCell::Kind::send) return {*edge_out_of(placement_, producer_like(cell)), cell.microbatch};
  return {*edge_into(placement_, cell.stage, cell.boundary), cell.microbatch};
}

std::optional<Boundary> ChannelState::input_of(const Action& action) const {
  if (action.kind == ActionKind::weight_gradient) return std::nullopt;
  const auto edge =
      edge_into(placement_, action.stage, action.kind == ActionKind::forward ? BoundaryKind::activation : BoundaryKind::gradient);
  return edge ? std::optional<Boundary>({*edge, action.microbatch}) : std::nullopt;
}

std::size_t ChannelState::entry_size(const std::vector<TransferCell>& cells, std::size_t index) const {
  const bool pair = cells[index].kind == TransferCell::Kind::compute && cells[index].action.overlaps_next && index + 1 < cells.size() &&
                    cells[index + 1].kind == TransferCell::Kind::compute;
  return pair ? 2 : 1;
}

// Whether the boundary is at the consumer and, if the channel keeps order, is the first there.
bool ChannelState::can_be_received(Boundary boundary) const {
  const auto& inbox = channels_[boundary.edge.index()].inbox;
  if (model_.order == TransferOrder::edge_fifo) return !inbox.empty() && inbox.front() == boundary.microbatch;
  return std::find(inbox.begin(), inbox.end(), boundary.microbatch) != inbox.end();
}

bool ChannelState::available(Boundary boundary) const {
  if (edge(boundary).local()) return produced(boundary);
  const bool implicit = model_.implicit_receives && model_.order != TransferOrder::rendezvous;
  return at(boundary).received || (implicit && can_be_received(boundary));
}

bool ChannelState::try_receive(Boundary boundary) {
  if (!can_be_received(boundary)) return false;
  std::erase(channels_[boundary.edge.index()].inbox, boundary.microbatch);
  return at(boundary).received = true;
}

void ChannelState::perform(const Action& action) {
  const auto in = input_of(action);
  if (in && !edge(*in).local()) {
    if (!at(*in).received) (void)try_receive(*in);
    --channels_[in->edge.index()].occupied_slots;
    deliver(in->edge);
  }
  if (const auto out = edge_out_of(placement_, action)) at({*out, action.microbatch}).produced = true;
}

bool ChannelState::has_room(Boundary boundary) const {
  return !model_.slots || channels_[boundary.edge.index()].occupied_slots < (*model_.slots)[boundary.edge.index()];
}

bool ChannelState::outbox_full(Boundary boundary) const {
  return model_.outbox > 0 && static_cast<int>(channels_[boundary.edge.index()].outbox.size()) >= model_.outbox;
}

Boundary ChannelState::oldest_in_outbox(Boundary boundary) const {
  return {boundary.edge, channels_[boundary.edge.index()].outbox.front()};
}

void ChannelState::arrive(Boundary boundary) {
  Channel& channel = channels_[boundary.edge.index()];
  std::erase(channel.outbox, boundary.microbatch);
  channel.inbox.push_back(boundary.microbatch);
  ++channel.occupied_slots;
  at(boundary).arrived = true;
}

// Without shared queues a boundary leaves its outbox as soon as the consumer has a slot for it.
void ChannelState::deliver(EdgeId edge) {
  Channel& channel = channels_[edge.index()];
  while (!uses_rank_queues() && !channel.outbox.empty() && has_room({edge, channel.outbox.front()})) arrive({edge, channel.outbox.front()});
}

void ChannelState::post_send(Boundary boundary) {
  at(boundary).send_posted = true;
  channels_[boundary.edge.index()].outbox.push_back(boundary.microbatch);
  if (uses_rank_queues()) queue(edge(boundary).producer_rank, boundary).push_back({boundary, true});
  deliver(boundary.edge);
}

void ChannelState::post_receive(Boundary boundary) {
  at(boundary).receive_posted = true;
  if (uses_rank_queues()) queue(edge(boundary).consumer_rank, boundary).push_back({boundary, false});
}

void ChannelState::rendezvous(Boundary boundary) {
  at(boundary).send_posted = true;
  arrive(boundary);
  (void)try_receive(boundary);
}

std::deque<ChannelState::QueuedEnd>& ChannelState::queue(RankId rank, Boundary boundary) {
  const bool second = model_.order == TransferOrder::direction_fifo && edge(boundary).kind == BoundaryKind::gradient;
  return queues_[2 * rank.index() + (second ? 1 : 0)];
}

const std::deque<ChannelState::QueuedEnd>& ChannelState::queue(RankId rank, Boundary boundary) const {
  return const_cast<ChannelState*>(this)->queue(rank, boundary);
}

bool ChannelState::match_transfers() {
  bool moved = false;
  for (std::size_t index = 0; index < queues_.size(); ++index) {
    while (!queues_[index].empty() && queues_[index].front().is_send) {
      const Boundary boundary = queues_[index].front().boundary;
      auto& other = queue(edge(boundary).consumer_rank, boundary);
      if (other.empty() || other.front() != QueuedEnd{boundary, false} || !has_room(boundary)) break;
      queues_[index].pop_front();
      other.pop_front();
      arrive(boundary);
      moved = true;
    }
  }
  return moved;
}

std::optional<Boundary> ChannelState::head_of_queue(Boundary boundary, RankId rank) const {
  const bool send = edge(boundary).producer_rank == rank;
  const auto& transfers = queue(rank, boundary);
  if (transfers.empty() || transfers.front() == QueuedEnd{boundary, send}) return std::nullopt;
  return transfers.front().boundary;
}

}  // namespace millrace::runtime
