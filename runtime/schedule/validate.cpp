#include "runtime/schedule/validate.hpp"

#include "kernels/base/check.hpp"
#include "runtime/schedule/causality.hpp"
#include "runtime/schedule/component.hpp"
#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/wiring.hpp"

namespace millrace::runtime {
namespace {

// What an action waits for: a boundary that `source` produces, or a slot of `edge` that `source` frees. The source's index is -1
// if no action does so.
struct Lack {
  bool slot = false;
  std::int32_t edge = -1;
  ActionPlace source;
};

// A ring's progress: the number of slots known to be free again. Rings free their slots in order.
struct Ring {
  int made = 0;
  int released = 0;
};

class Replay {
 public:
  Replay(const Schedule& schedule, const std::optional<std::vector<int>>& depths)
      : schedule_(schedule),
        table_(schedule),
        wiring_(schedule),
        depths_(depths),
        done_(schedule.ranks.size(), 0),
        rings_(wiring_.edges.size()),
        neighbours_(schedule.ranks.size()),
        queued_(schedule.ranks.size(), true) {
    MILLRACE_CHECK(!depths || depths->size() == rings_.size(), ExitCode::internal, schedule_component,
                   "{} channel depths, expected one for each of {} edges", depths->size(), rings_.size());
    for (const Edge& edge : wiring_.edges) {
      neighbours_[edge.producer_rank.index()].push_back(edge.consumer_rank.index());
      neighbours_[edge.consumer_rank.index()].push_back(edge.producer_rank.index());
    }
  }

  Liveness run() {
    for (std::size_t rank = done_.size(); rank-- > 0;) runnable_.push_back(rank);
    while (!runnable_.empty()) {
      const std::size_t rank = runnable_.back();
      runnable_.pop_back();
      queued_[rank] = false;
      bool moved = false;
      while (step(rank)) moved = true;
      if (moved) wake(neighbours_[rank]);
    }
    return explain_stuck();
  }

 private:
  void wake(const std::vector<std::size_t>& ranks) {
    for (const std::size_t rank : ranks) {
      if (queued_[rank]) continue;
      queued_[rank] = true;
      runnable_.push_back(rank);
    }
  }

  // Size of the rank's next entry: one action, or the two of a pair.
  std::size_t entry_size(std::size_t rank) const {
    const auto& list = schedule_.ranks[rank];
    const std::size_t left = list.size() - done_[rank];
    return left >= 2 && list[done_[rank]].overlaps_next ? 2 : std::min<std::size_t>(left, 1);
  }
  const Action& action(std::size_t rank, std::size_t half = 0) const { return schedule_.ranks[rank][done_[rank] + half]; }

  bool step(std::size_t rank) {
    const std::size_t size = entry_size(rank);
    if (size == 0 || lack_of_entry(rank)) return false;
    for (std::size_t half = 0; half < size; ++half) {
      const std::int32_t out = wiring_.output(action(rank));
      if (out >= 0) ++rings_[static_cast<std::size_t>(out)].made;
      ++done_[rank];
    }
    return true;
  }

  std::optional<Lack> lack_of_entry(std::size_t rank) {
    for (std::size_t half = 0; half < entry_size(rank); ++half) {
      // Two boundaries of one edge need two slots.
      const bool again = half == 1 && wiring_.output(action(rank, 1)) == wiring_.output(action(rank));
      if (auto missing = lack(action(rank, half), again ? 1 : 0)) return missing;
    }
    return std::nullopt;
  }

  bool finished(const ActionPlace& place) const {
    return place.index >= 0 && done_[place.rank.index()] > static_cast<std::size_t>(place.index);
  }

  /// `ahead`: boundaries of its output edge that the entry makes before this one.
  std::optional<Lack> lack(const Action& action, int ahead) {
    const auto source = table_.boundary_source(action);
    if (source && !finished(*source)) return Lack{false, wiring_.input(action), *source};
    return lack_of_slot(action, ahead);
  }

  // The next boundary of an edge needs the slot of the boundary `depth` before it; that one's last use, and those of all earlier
  // ones, must be over.
  std::optional<Lack> lack_of_slot(const Action& action, int ahead) {
    const std::int32_t out = wiring_.output(action);
    if (!depths_ || out < 0) return std::nullopt;
    Ring& ring = rings_[static_cast<std::size_t>(out)];
    const Edge& edge = wiring_.edges[static_cast<std::size_t>(out)];
    while (ring.released <= ring.made + ahead - (*depths_)[static_cast<std::size_t>(out)]) {
      const MicrobatchId held = wiring_.microbatch_of(edge.consumer, ring.released);
      const ActionPlace use{edge.consumer_rank,
                            wiring_.forward_only ? table_.forward(edge.consumer, held) : table_.last(edge.consumer, held)};
      if (!finished(use)) return Lack{true, out, use};
      ++ring.released;
    }
    return std::nullopt;
  }

  Liveness explain_stuck() {
    std::vector<StuckRank> stuck;
    for (std::size_t rank = 0; rank < done_.size(); ++rank) {
      if (entry_size(rank) == 0) continue;
      stuck.push_back(describe(rank, *lack_of_entry(rank)));
    }
    return explain(stuck);
  }

  StuckRank describe(std::size_t rank, const Lack& missing) const {
    const Edge& edge = wiring_.edges[static_cast<std::size_t>(missing.edge)];
    const bool pair = entry_size(rank) == 2;
    StuckRank stuck;
    stuck.rank = RankId{rank};
    stuck.at = pair ? fmt::format("({};{})", action(rank), action(rank, 1)) : to_string(action(rank));
    stuck.entry = fmt::format("{} (action {} of {})", stuck.at, done_[rank], schedule_.ranks[rank].size());
    const bool second = pair && wiring_.input(action(rank)) != missing.edge && wiring_.output(action(rank)) != missing.edge;
    stuck.lacks = missing.slot ? fmt::format("no free slot of {} on the {} edge from stage {} to {}", (*depths_)[edge.id.index()],
                                             to_string(edge.kind), edge.producer, edge.consumer)
                               : fmt::format("no {} of microbatch {} from stage {}", to_string(edge.kind),
                                             action(rank, second ? 1 : 0).microbatch, edge.producer);
    if (missing.source.index < 0) {
      stuck.lacks += ", which no rank produces";
      return stuck;
    }
    const Action& source = schedule_.ranks[missing.source.rank.index()][static_cast<std::size_t>(missing.source.index)];
    stuck.lacks += fmt::format(", which {} on rank {} {}", source, missing.source.rank, missing.slot ? "frees" : "produces");
    stuck.waits_for = missing.source.rank;
    return stuck;
  }

  const Schedule& schedule_;
  ActionTable table_;
  Wiring wiring_;
  const std::optional<std::vector<int>>& depths_;
  std::vector<std::size_t> done_;                     // by rank: number of finished actions
  std::vector<Ring> rings_;                           // by edge
  std::vector<std::vector<std::size_t>> neighbours_;  // by rank
  std::vector<std::size_t> runnable_;
  std::vector<bool> queued_;
};

}  // namespace

Liveness replay_untimed(const Schedule& schedule, const std::optional<std::vector<int>>& depths) { return Replay(schedule, depths).run(); }

void check_schedule(const Schedule& schedule, const std::optional<std::vector<int>>& depths) {
  check_well_formed(schedule);
  const Liveness liveness = replay_untimed(schedule, depths);
  MILLRACE_CHECK(liveness.live, ExitCode::config, schedule_component, "schedule \"{}\" deadlocks, its ranks wait for each other:\n{}",
                 schedule.name, liveness.report);
}

}  // namespace millrace::runtime
