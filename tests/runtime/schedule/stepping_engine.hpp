#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/schedule/simulator/transfer_order.hpp"

namespace millrace::runtime {

/// Executes a full table step by step without threads: among all possible moves a random one is next. It implements the rules of
/// the transport models from their description alone, and shares no code with the replay.
class SteppingEngine {
 public:
  SteppingEngine(const Placement& placement, FullTable table, TransferModel model, unsigned seed)
      : placement_(placement), table_(std::move(table)), model_(std::move(model)), random_(seed), queues_(table_.size()) {}

  /// Returns false if no move is possible before the end of the lists.
  bool completes() {
    while (true) {
      std::vector<Move> moves = possible();
      if (moves.empty()) break;
      moves[random_() % moves.size()]();
    }
    return std::all_of(table_.begin(), table_.end(), [](const auto& list) { return list.empty(); });
  }

 private:
  using Move = std::function<void()>;
  using Kind = TransferCell::Kind;
  struct Posted {
    bool send;
    std::string token;
  };

  bool in_order() const { return model_.order == TransferOrder::edge_fifo; }
  bool shared_queue() const { return model_.order == TransferOrder::direction_fifo || model_.order == TransferOrder::rank_fifo; }

  // The name of a boundary: its edge, named by the consumer, and its microbatch.
  static std::string edge_name(StageId consumer, BoundaryKind kind) { return fmt::format("{}{}", to_string(kind), consumer); }
  std::string edge_of(const TransferCell& cell) const {
    StageId consumer = cell.stage;
    if (cell.kind == Kind::send) {
      consumer = cell.boundary == BoundaryKind::activation ? *placement_.next(cell.stage) : *placement_.previous(cell.stage);
    }
    return edge_name(consumer, cell.boundary);
  }
  std::string token_of(const TransferCell& cell) const { return fmt::format("{}/{}", edge_of(cell), cell.microbatch); }

  struct Input {
    std::string edge, token;
    bool local = false;
  };
  std::vector<Input> inputs(const Action& action) const {
    if (action.kind == ActionKind::weight_gradient) return {};
    const bool forward = action.kind == ActionKind::forward;
    const auto from = forward ? placement_.previous(action.stage) : placement_.next(action.stage);
    if (!from) return {};
    const std::string edge = edge_name(action.stage, forward ? BoundaryKind::activation : BoundaryKind::gradient);
    return {{edge, fmt::format("{}/{}", edge, action.microbatch), placement_.rank_of(*from) == placement_.rank_of(action.stage)}};
  }

  std::vector<Action> entry(std::size_t rank) const {
    std::vector<Action> actions{table_[rank][0].action};
    if (actions[0].overlaps_next && table_[rank].size() > 1 && table_[rank][1].kind == Kind::compute)
      actions.push_back(table_[rank][1].action);
    return actions;
  }

  bool at_hand(const Input& input) const {
    if (input.local) return made_.count(input.token) > 0;
    if (received_.count(input.token)) return true;
    if (!model_.implicit_receives || model_.order == TransferOrder::rendezvous) return false;
    return next_in(input.edge, input.token);
  }
  bool next_in(const std::string& edge, const std::string& token) const {
    const auto found = arrived_.find(edge);
    if (found == arrived_.end() || found->second.empty()) return false;
    if (in_order()) return found->second.front() == token;
    return std::count(found->second.begin(), found->second.end(), token) > 0;
  }
  bool room(const std::string& edge) const {
    if (!model_.slots) return true;
    const auto used = used_.find(edge);
    return (used == used_.end() ? 0 : used->second) < slots_of(edge);
  }
  int slots_of(const std::string& name) const {
    for (const Edge& edge : edges_of(placement_)) {
      if (edge_name(edge.consumer, edge.kind) == name) return (*model_.slots)[edge.id.index()];
    }
    return 0;
  }

  std::vector<Move> possible() {
    std::vector<Move> moves;
    for (std::size_t rank = 0; rank < table_.size(); ++rank) {
      if (table_[rank].empty()) continue;
      const TransferCell& cell = table_[rank].front();
      if (cell.kind == Kind::compute)
        add_compute(rank, moves);
      else if (model_.order == TransferOrder::rendezvous)
        add_meeting(rank, moves);
      else if (cell.kind == Kind::send)
        add_send(rank, moves);
      else
        add_receive(rank, moves);
    }
    shared_queue() ? add_matches(moves) : add_deliveries(moves);
    return moves;
  }

  void add_compute(std::size_t rank, std::vector<Move>& moves) {
    for (const Action& action : entry(rank)) {
      for (const Input& input : inputs(action)) {
        if (!at_hand(input)) return;
      }
    }
    moves.push_back([this, rank] {
      const auto actions = entry(rank);
      for (const Action& action : actions) {
        for (const Input& input : inputs(action)) use(input);
        make(action);
      }
      table_[rank].erase(table_[rank].begin(), table_[rank].begin() + static_cast<long>(actions.size()));
    });
  }
  void use(const Input& input) {
    if (input.local) return;
    if (received_.count(input.token) == 0) std::erase(arrived_[input.edge], input.token);
    --used_[input.edge];
  }
  void make(const Action& action) {
    const bool forward = action.kind == ActionKind::forward;
    if (action.kind == ActionKind::weight_gradient) return;
    const auto to = forward ? placement_.next(action.stage) : placement_.previous(action.stage);
    if (to)
      made_.insert(fmt::format("{}/{}", edge_name(*to, forward ? BoundaryKind::activation : BoundaryKind::gradient), action.microbatch));
  }

  void add_send(std::size_t rank, std::vector<Move>& moves) {
    const TransferCell& cell = table_[rank].front();
    const std::string edge = edge_of(cell);
    if (made_.count(token_of(cell)) == 0) return;
    if (model_.outbox > 0 && static_cast<int>(leaving_[edge].size()) >= model_.outbox) return;
    moves.push_back([this, rank, edge] {
      const std::string token = token_of(table_[rank].front());
      leaving_[edge].push_back(token);
      if (shared_queue()) queues_[rank].push_back({true, token});
      table_[rank].erase(table_[rank].begin());
    });
  }

  void add_receive(std::size_t rank, std::vector<Move>& moves) {
    const std::string token = token_of(table_[rank].front());
    const std::string edge = edge_of(table_[rank].front());
    if (shared_queue() && posted_.count(token) == 0) {
      moves.push_back([this, rank, token] {
        posted_.insert(token);
        queues_[rank].push_back({false, token});
      });
      return;
    }
    if (!model_.implicit_receives && !next_in(edge, token)) return;
    moves.push_back([this, rank, token, edge] {
      if (!model_.implicit_receives) {
        received_.insert(token);
        std::erase(arrived_[edge], token);
      }
      table_[rank].erase(table_[rank].begin());
    });
  }

  void add_meeting(std::size_t rank, std::vector<Move>& moves) {
    const TransferCell cell = table_[rank].front();
    if (cell.kind != Kind::send || made_.count(token_of(cell)) == 0 || !room(edge_of(cell))) return;
    for (std::size_t other = 0; other < table_.size(); ++other) {
      if (table_[other].empty() || table_[other].front().kind != Kind::receive || token_of(table_[other].front()) != token_of(cell))
        continue;
      moves.push_back([this, rank, other, cell] {
        received_.insert(token_of(cell));
        ++used_[edge_of(cell)];
        table_[rank].erase(table_[rank].begin());
        table_[other].erase(table_[other].begin());
      });
    }
  }

  void add_deliveries(std::vector<Move>& moves) {
    for (auto& [edge, tokens] : leaving_) {
      if (tokens.empty() || !room(edge)) continue;
      moves.push_back([this, edge = edge] { deliver(edge, leaving_[edge].front()); });
    }
  }
  void deliver(const std::string& edge, std::string token) {
    std::erase(leaving_[edge], token);
    arrived_[edge].push_back(token);
    ++used_[edge];
  }

  // The first transfer of every queue: of the rank, or of its activations and of its gradients.
  std::vector<Posted> heads(std::size_t rank) const {
    std::vector<Posted> result;
    std::set<std::string> seen;
    for (const Posted& posted : queues_[rank]) {
      const bool directions = model_.order == TransferOrder::direction_fifo;
      if (seen.insert(directions ? posted.token.substr(0, 4) : "all").second) result.push_back(posted);
    }
    return result;
  }
  void add_matches(std::vector<Move>& moves) {
    for (std::size_t from = 0; from < table_.size(); ++from) {
      for (std::size_t to = 0; to < table_.size(); ++to) {
        for (const Posted& send : heads(from)) {
          for (const Posted& receive : heads(to)) {
            const std::string edge = send.token.substr(0, send.token.find('/'));
            if (!send.send || receive.send || send.token != receive.token || !room(edge)) continue;
            moves.push_back([this, from, to, edge, token = send.token] {
              const auto same = [&](const Posted& posted) { return posted.token == token; };
              std::erase_if(queues_[from], same);
              std::erase_if(queues_[to], same);
              deliver(edge, token);
            });
          }
        }
      }
    }
  }

  const Placement placement_;
  FullTable table_;  // the remaining entries of the lists
  TransferModel model_;
  std::mt19937 random_;
  std::set<std::string> made_, received_, posted_;
  std::map<std::string, std::vector<std::string>> leaving_, arrived_;  // by edge
  std::map<std::string, int> used_;                                    // by edge: number of used slots
  std::vector<std::vector<Posted>> queues_;                            // by rank
};

}  // namespace millrace::runtime
