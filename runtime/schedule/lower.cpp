#include "runtime/schedule/lower.hpp"

#include "kernels/base/check.hpp"
#include "runtime/schedule/cell.hpp"
#include "runtime/schedule/edge.hpp"

namespace millrace::runtime {
namespace {

class Lowering {
 public:
  explicit Lowering(const Schedule& schedule)
      : schedule_(schedule), edges_(edges_of(schedule.placement)), next_(schedule.ranks.size(), 0), cells_(schedule.ranks.size()) {
    there_.assign(edges_.size(), std::vector<bool>(static_cast<std::size_t>(schedule.microbatches), false));
  }

  std::vector<std::vector<std::string>> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank) moved = step(rank) || moved;
    }
    check_complete();
    return std::move(cells_);
  }

 private:
  // One entry, both halves of a pair.
  bool step(std::size_t rank) {
    const auto& list = schedule_.ranks[rank];
    const std::size_t first = next_[rank];
    if (first == list.size()) return false;
    const std::size_t end = first + (list[first].overlaps_next && first + 1 < list.size() ? 2 : 1);
    for (std::size_t index = first; index < end; ++index)
      if (!ready(list[index])) return false;
    cells_[rank].push_back(print_row({list.begin() + static_cast<std::ptrdiff_t>(first), list.begin() + static_cast<std::ptrdiff_t>(end)}));
    for (std::size_t index = first; index < end; ++index) pass_on(list[index]);
    next_[rank] = end;
    return true;
  }

  [[nodiscard]] bool ready(const Action& action) const {
    if (action.kind == ActionKind::weight_gradient) return true;
    const TokenKind kind = action.kind == ActionKind::forward ? TokenKind::activation : TokenKind::gradient;
    const auto edge = edge_into(schedule_.placement, action.stage, kind);
    return !edge || there_[edge->index()][action.microbatch.index()];
  }

  void pass_on(const Action& action) {
    const auto out = edge_out_of(schedule_.placement, action);
    if (!out) return;
    const Edge& edge = edges_[out->index()];
    there_[out->index()][action.microbatch.index()] = true;
    if (edge.local()) return;
    const char letter = edge.kind == TokenKind::activation ? 'F' : 'B';
    cells_[edge.producer_rank.index()].push_back(fmt::format("{}SEND_{}{}", edge.producer, letter, action.microbatch));
    cells_[edge.consumer_rank.index()].push_back(fmt::format("{}RECV_{}{}", edge.consumer, letter, action.microbatch));
  }

  void check_complete() const {
    std::string stuck;
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      const auto& list = schedule_.ranks[rank];
      if (next_[rank] < list.size()) stuck += fmt::format("; rank {} stops before {}", rank, list[next_[rank]]);
    }
    MILLRACE_CHECK(stuck.empty(), ExitCode::config, "runtime.schedule", "schedule \"{}\" cannot be lowered, it is dead{}", schedule_.name,
                   stuck);
  }

  const Schedule& schedule_;
  std::vector<Edge> edges_;
  std::vector<std::size_t> next_;         // by rank
  std::vector<std::vector<bool>> there_;  // by edge and microbatch: the token has been made
  std::vector<std::vector<std::string>> cells_;
};

}  // namespace

std::vector<std::vector<std::string>> lower(const Schedule& schedule) { return Lowering(schedule).run(); }

}  // namespace millrace::runtime
