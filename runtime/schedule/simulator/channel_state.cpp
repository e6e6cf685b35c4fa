#include "runtime/schedule/simulator/channel_state.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* who = "runtime.schedule";

// Any action whose boundary has the kind and microbatch of the transfer's.
Action maker_like(const TransferCell& cell) {
  return {cell.stage, cell.token == BoundaryKind::activation ? ActionKind::forward : ActionKind::input_gradient, cell.microbatch};
}

}  // namespace

ChannelState::ChannelState(const Placement& placement, const FullTable& table, const TransferModel& model)
    : placement_(placement), model_(model), edges_(edges_of(placement)), channels_(edges_.size()), queues_(2 * table.size()) {
  MILLRACE_CHECK(static_cast<int>(table.size()) == placement.ranks(), ExitCode::config, who,
                 "the full table has {} lists, expected one for each of {} ranks", table.size(), placement.ranks());
  MILLRACE_CHECK(!model.slots || model.slots->size() == edges_.size(), ExitCode::internal, who,
                 "{} slot counts, expected one for each of {} edges", model.slots ? model.slots->size() : 0, edges_.size());
  int last = -1;
  for (std::size_t rank = 0; rank < table.size(); ++rank) {
    for (const TransferCell& cell : table[rank]) {
      check_cell(rank, cell);
      last = std::max({last, cell.microbatch.value, cell.action.microbatch.value});
    }
  }
  for (Channel& channel : channels_) channel.tokens.resize(static_cast<std::size_t>(last + 1));
  for (std::size_t rank = 0; rank < table.size(); ++rank) {
    for (const TransferCell& cell : table[rank]) note_cell(rank, cell);
  }
}

void ChannelState::note_cell(std::size_t rank, const TransferCell& cell) {
  const bool compute = cell.kind == TransferCell::Kind::compute;
  const auto out = compute ? edge_out_of(placement_, cell.action) : std::nullopt;
  if (compute && !out) return;
  History& history = at(compute ? Token{*out, cell.action.microbatch} : token_of(cell));
  bool& there = compute ? history.has_maker : cell.kind == TransferCell::Kind::send ? history.has_send : history.has_receive;
  MILLRACE_CHECK(!there, ExitCode::config, who, "rank {}, cell {}: a second one for the same token", rank, to_string(cell));
  there = true;
}

void ChannelState::check_cell(std::size_t rank, const TransferCell& cell) const {
  const bool compute = cell.kind == TransferCell::Kind::compute;
  const StageId stage = compute ? cell.action.stage : cell.stage;
  MILLRACE_CHECK(stage.value >= 0 && stage.value < placement_.stages() && placement_.rank_of(stage) == RankId{rank}, ExitCode::config, who,
                 "rank {}, cell {}: stage {} does not belong to this rank", rank, to_string(cell), stage);
  MILLRACE_CHECK((compute ? cell.action.microbatch : cell.microbatch).value >= 0, ExitCode::config, who,
                 "rank {}, cell {}: the microbatch is negative", rank, to_string(cell));
  if (compute) return;
  const bool exists = cell.kind == TransferCell::Kind::send ? edge_out_of(placement_, maker_like(cell)).has_value()
                                                            : edge_into(placement_, cell.stage, cell.token).has_value();
  MILLRACE_CHECK(exists && !edge(token_of(cell)).local(), ExitCode::config, who,
                 "rank {}, cell {}: no {} is transferred between two ranks here", rank, to_string(cell), to_string(cell.token));
}

Token ChannelState::token_of(const TransferCell& cell) const {
  if (cell.kind == TransferCell::Kind::send) return {*edge_out_of(placement_, maker_like(cell)), cell.microbatch};
  return {*edge_into(placement_, cell.stage, cell.token), cell.microbatch};
}

std::optional<Token> ChannelState::input_of(const Action& action) const {
  if (action.kind == ActionKind::weight_gradient) return std::nullopt;
  const auto edge =
      edge_into(placement_, action.stage, action.kind == ActionKind::forward ? BoundaryKind::activation : BoundaryKind::gradient);
  return edge ? std::optional<Token>({*edge, action.microbatch}) : std::nullopt;
}

std::size_t ChannelState::entry_size(const std::vector<TransferCell>& cells, std::size_t index) const {
  const bool pair = cells[index].kind == TransferCell::Kind::compute && cells[index].action.overlaps_next && index + 1 < cells.size() &&
                    cells[index + 1].kind == TransferCell::Kind::compute;
  return pair ? 2 : 1;
}

// Whether the boundary is at the consumer and, if the channel keeps order, is the first there.
bool ChannelState::in_reach(Token token) const {
  const auto& inbox = channels_[token.edge.index()].inbox;
  if (model_.order == TransferOrder::edge_fifo) return !inbox.empty() && inbox.front() == token.microbatch;
  return std::find(inbox.begin(), inbox.end(), token.microbatch) != inbox.end();
}

bool ChannelState::usable(Token token) const {
  if (edge(token).local()) return made(token);
  const bool implicit = model_.implicit_receives && model_.order != TransferOrder::rendezvous;
  return at(token).taken || (implicit && in_reach(token));
}

bool ChannelState::take(Token token) {
  if (!in_reach(token)) return false;
  std::erase(channels_[token.edge.index()].inbox, token.microbatch);
  return at(token).taken = true;
}

void ChannelState::perform(const Action& action) {
  const auto in = input_of(action);
  if (in && !edge(*in).local()) {
    if (!at(*in).taken) (void)take(*in);
    --channels_[in->edge.index()].used;
    pump(in->edge);
  }
  if (const auto out = edge_out_of(placement_, action)) at({*out, action.microbatch}).made = true;
}

bool ChannelState::has_room(Token token) const {
  return !model_.slots || channels_[token.edge.index()].used < (*model_.slots)[token.edge.index()];
}

bool ChannelState::outbox_full(Token token) const {
  return model_.outbox > 0 && static_cast<int>(channels_[token.edge.index()].outbox.size()) >= model_.outbox;
}

Token ChannelState::oldest_unsent(Token token) const { return {token.edge, channels_[token.edge.index()].outbox.front()}; }

void ChannelState::arrive(Token token) {
  Channel& channel = channels_[token.edge.index()];
  std::erase(channel.outbox, token.microbatch);
  channel.inbox.push_back(token.microbatch);
  ++channel.used;
  at(token).came = true;
}

// Without shared queues a boundary leaves its outbox as soon as the consumer has a slot for it.
void ChannelState::pump(EdgeId edge) {
  Channel& channel = channels_[edge.index()];
  while (!queued() && !channel.outbox.empty() && has_room({edge, channel.outbox.front()})) arrive({edge, channel.outbox.front()});
}

void ChannelState::post_send(Token token) {
  at(token).sent = true;
  channels_[token.edge.index()].outbox.push_back(token.microbatch);
  if (queued()) queue(edge(token).producer_rank, token).push_back({token, true});
  pump(token.edge);
}

void ChannelState::post_receive(Token token) {
  at(token).receive_posted = true;
  if (queued()) queue(edge(token).consumer_rank, token).push_back({token, false});
}

void ChannelState::hand_over(Token token) {
  at(token).sent = true;
  arrive(token);
  (void)take(token);
}

std::deque<ChannelState::Transfer>& ChannelState::queue(RankId rank, Token token) {
  const bool second = model_.order == TransferOrder::direction_fifo && edge(token).kind == BoundaryKind::gradient;
  return queues_[2 * rank.index() + (second ? 1 : 0)];
}

const std::deque<ChannelState::Transfer>& ChannelState::queue(RankId rank, Token token) const {
  return const_cast<ChannelState*>(this)->queue(rank, token);
}

bool ChannelState::match() {
  bool moved = false;
  for (std::size_t index = 0; index < queues_.size(); ++index) {
    while (!queues_[index].empty() && queues_[index].front().send) {
      const Token token = queues_[index].front().token;
      auto& other = queue(edge(token).consumer_rank, token);
      if (other.empty() || other.front() != Transfer{token, false} || !has_room(token)) break;
      queues_[index].pop_front();
      other.pop_front();
      arrive(token);
      moved = true;
    }
  }
  return moved;
}

std::optional<Token> ChannelState::ahead_of(Token token, RankId rank) const {
  const bool send = edge(token).producer_rank == rank;
  const auto& transfers = queue(rank, token);
  if (transfers.empty() || transfers.front() == Transfer{token, send}) return std::nullopt;
  return transfers.front().token;
}

}  // namespace millrace::runtime
