#include "runtime/schedule/full_table.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "runtime/schedule/cell.hpp"
#include "runtime/schedule/validate.hpp"
#include "runtime/schedule/wiring.hpp"

namespace millrace::runtime {
namespace {

class Lowering {
 public:
  explicit Lowering(const Schedule& schedule)
      : schedule_(schedule),
        wiring_(schedule),
        microbatches_(static_cast<std::size_t>(schedule.microbatches)),
        next_(schedule.ranks.size(), 0),
        made_(wiring_.edges.size() * microbatches_, false),
        table_(schedule.ranks.size()) {}

  FullTable run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank) moved = step(rank) || moved;
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      MILLRACE_CHECK(next_[rank] == schedule_.ranks[rank].size(), ExitCode::config, "runtime.schedule",
                     "schedule \"{}\" cannot be lowered, its ranks wait for each other:\n{}", schedule_.name,
                     replay_untimed(schedule_).report);
    }
    return std::move(table_);
  }

 private:
  std::size_t boundary(std::int32_t edge, const Action& action) const {
    return static_cast<std::size_t>(edge) * microbatches_ + action.microbatch.index();
  }

  bool step(std::size_t rank) {
    const auto& list = schedule_.ranks[rank];
    const std::size_t first = next_[rank];
    if (first == list.size()) return false;
    const std::size_t stop = first + (list[first].overlaps_next && first + 1 < list.size() ? 2 : 1);
    for (std::size_t index = first; index < stop; ++index) {
      const std::int32_t in = wiring_.input(list[index]);
      if (in >= 0 && !made_[boundary(in, list[index])]) return false;
    }
    for (std::size_t index = first; index < stop; ++index) {
      TransferCell cell;
      cell.action = list[index];
      table_[rank].push_back(cell);
    }
    for (std::size_t index = first; index < stop; ++index) send(rank, list[index]);
    next_[rank] = stop;
    return true;
  }

  void send(std::size_t rank, const Action& action) {
    const std::int32_t out = wiring_.output(action);
    if (out < 0) return;
    made_[boundary(out, action)] = true;
    const Edge& edge = wiring_.edges[static_cast<std::size_t>(out)];
    if (edge.local()) return;
    table_[rank].push_back({TransferCell::Kind::send, {}, edge.kind, edge.producer, action.microbatch});
    table_[edge.consumer_rank.index()].push_back({TransferCell::Kind::receive, {}, edge.kind, edge.consumer, action.microbatch});
  }

  const Schedule& schedule_;
  Wiring wiring_;
  std::size_t microbatches_;
  std::vector<std::size_t> next_;  // by rank
  std::vector<bool> made_;         // by edge and microbatch
  FullTable table_;
};

}  // namespace

std::string to_string(const TransferCell& cell) {
  if (cell.kind == TransferCell::Kind::compute) return to_string(cell.action);
  return fmt::format("{}{}_{}{}", cell.stage, cell.kind == TransferCell::Kind::send ? "SEND" : "RECV",
                     cell.boundary == BoundaryKind::activation ? 'F' : 'B', cell.microbatch);
}

std::vector<TransferCell> parse_transfer_cell(std::string_view text) {
  constexpr std::size_t verb_size = 5;
  const std::size_t send = text.find("SEND_"), verb = std::min(send, text.find("RECV_"));
  std::vector<TransferCell> cells;
  if (verb == std::string_view::npos) {
    for (const Action& action : parse_cell(text)) cells.emplace_back().action = action;
    return cells;
  }
  static_cast<void>(parse_cell(text));
  // Parses stage and microbatch like those of a forward.
  const Action named = parse_action(fmt::format("{}F{}", text.substr(0, verb), text.substr(verb + verb_size + 1)));
  const BoundaryKind boundary = text[verb + verb_size] == 'F' ? BoundaryKind::activation : BoundaryKind::gradient;
  cells.push_back({verb == send ? TransferCell::Kind::send : TransferCell::Kind::receive, {}, boundary, named.stage, named.microbatch});
  return cells;
}

FullTable full_table(const Schedule& schedule) { return Lowering(schedule).run(); }

}  // namespace millrace::runtime
