#include "runtime/schedule/validate.hpp"

#include <algorithm>
#include <array>

#include "kernels/base/check.hpp"
#include "runtime/schedule/edge.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* who = "runtime.schedule";

// -- well-formedness -----------------------------------------------------------------------------------------------------

// What a rank's list has said so far about one stage and microbatch.
struct Seen {
  int forward = 0, input = 0, weight = 0, backward = 0;
  int& of(ActionKind kind) {
    switch (kind) {
      case ActionKind::forward:
        return forward;
      case ActionKind::input_gradient:
        return input;
      case ActionKind::weight_gradient:
        return weight;
      default:
        return backward;
    }
  }
};

// The three orders of rule 4; I and B share one.
std::size_t order_of(ActionKind kind) { return kind == ActionKind::forward ? 0 : kind == ActionKind::weight_gradient ? 2 : 1; }

void check_range(const Schedule& schedule, RankId rank, const Action& action) {
  MILLRACE_CHECK(action.stage.value >= 0 && action.stage.value < schedule.placement.stages(), ExitCode::config, who,
                 "rank {}, action {}: stage {} is unknown, wanted 0 to {}", rank, action, action.stage, schedule.placement.stages() - 1);
  MILLRACE_CHECK(action.microbatch.value >= 0 && action.microbatch.value < schedule.microbatches, ExitCode::config, who,
                 "rank {}, action {}: microbatch {} is unknown, wanted 0 to {}", rank, action, action.microbatch,
                 schedule.microbatches - 1);
  MILLRACE_CHECK(schedule.placement.rank_of(action.stage) == rank, ExitCode::config, who, "rank {}, action {}: stage {} belongs to rank {}",
                 rank, action, action.stage, schedule.placement.rank_of(action.stage));
}

void check_history(RankId rank, const Action& action, const Seen& before, bool forward_only) {
  const auto once = [&](bool good, const char* rule) {
    MILLRACE_CHECK(good, ExitCode::config, who, "rank {}, action {}: {}", rank, action, rule);
  };
  switch (action.kind) {
    case ActionKind::forward:
      once(before.forward == 0, "a second forward of this stage and microbatch");
      break;
    case ActionKind::input_gradient:
    case ActionKind::backward:
      once(before.forward == 1, "comes before its forward");
      once(before.input + before.backward == 0, "a second I or B of this stage and microbatch");
      break;
    case ActionKind::weight_gradient:
      once(before.backward == 0, "a W beside a B of this stage and microbatch");
      once(before.input == 1, "comes before its I");
      once(before.weight == 0, "a second W of this stage and microbatch");
      break;
  }
  once(!forward_only || action.kind == ActionKind::forward, "is no forward, in a forward-only schedule");
}

void check_complete(const Schedule& schedule, const std::vector<Seen>& seen, bool forward_only) {
  for (int stage = 0; stage < schedule.placement.stages(); ++stage) {
    for (int m = 0; m < schedule.microbatches; ++m) {
      const Seen& entry = seen[static_cast<std::size_t>(stage * schedule.microbatches + m)];
      const char* missing = entry.forward == 0                                         ? "F"
                            : forward_only                                             ? nullptr
                            : entry.input + entry.backward == 0                        ? "B (or I and W)"
                            : entry.backward == 0 && entry.input == 1 && !entry.weight ? "W"
                                                                                       : nullptr;
      MILLRACE_CHECK(missing == nullptr, ExitCode::config, who, "schedule \"{}\": stage {} on rank {} has no {} for microbatch {}",
                     schedule.name, stage, schedule.placement.rank_of(StageId{stage}), missing, m);
    }
  }
}

// -- replay --------------------------------------------------------------------------------------------------------------

// What an action lacks: a token that `source` makes, or a slot of `edge` that `source` gives back. The source's index is -1 where nobody
// does.
struct Lack {
  const char* what = nullptr;
  std::optional<EdgeId> edge;
  ActionPlace source;
};

class Replay {
 public:
  Replay(const Schedule& schedule, const std::optional<std::vector<int>>& depths)
      : schedule_(schedule),
        table_(schedule),
        edges_(edges_of(schedule.placement)),
        depths_(depths),
        forward_only_(schedule.forward_only()),
        done_(schedule.ranks.size(), 0) {
    MILLRACE_CHECK(!depths || depths->size() == edges_.size(), ExitCode::internal, who,
                   "{} channel depths, wanted one for each of {} edges", depths->size(), edges_.size());
  }

  Liveness run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < done_.size(); ++rank) {
        while (head(rank) && !lack(*head(rank))) {
          ++done_[rank];
          moved = true;
        }
      }
    }
    return explain();
  }

 private:
  const Action* head(std::size_t rank) const {
    const auto& list = schedule_.ranks[rank];
    return static_cast<std::size_t>(done_[rank]) < list.size() ? &list[static_cast<std::size_t>(done_[rank])] : nullptr;
  }
  bool finished(const ActionPlace& place) const { return place.index >= 0 && done_[place.rank.index()] > place.index; }

  std::optional<Lack> lack(const Action& action) const {
    const auto source = table_.token_source(action);
    if (source && !finished(*source)) {
      const auto kind = action.kind == ActionKind::forward ? TokenKind::activation : TokenKind::gradient;
      return Lack{to_string(kind), edge_into(schedule_.placement, action.stage, kind), *source};
    }
    return lack_of_slot(action);
  }

  // Token m of an edge needs the slot of token m − depth, which must have been used for the last time, as must all before it.
  std::optional<Lack> lack_of_slot(const Action& action) const {
    const auto out = edge_out_of(schedule_.placement, action);
    if (!depths_ || !out) return std::nullopt;
    const Edge& edge = edges_[out->index()];
    for (int m = 0; m <= action.microbatch.value - (*depths_)[out->index()]; ++m) {
      const MicrobatchId held{m};
      const int last = forward_only_ ? table_.forward(edge.consumer, held) : table_.last(edge.consumer, held);
      const ActionPlace use{edge.consumer_rank, last};
      if (!finished(use)) return Lack{"slot", out, use};
    }
    return std::nullopt;
  }

  Liveness explain() const {
    Liveness result;
    std::vector<int> waits_for(done_.size(), -1);
    for (std::size_t rank = 0; rank < done_.size(); ++rank) {
      const Action* stuck = head(rank);
      if (!stuck) continue;
      const Lack missing = *lack(*stuck);
      result.report += describe(rank, *stuck, missing);
      if (missing.source.index >= 0) waits_for[rank] = missing.source.rank.value;
    }
    result.live = result.report.empty();
    if (!result.live) find_cycle(waits_for, result);
    return result;
  }

  std::string describe(std::size_t rank, const Action& stuck, const Lack& missing) const {
    const Edge& edge = edges_[missing.edge->index()];
    std::string line = fmt::format("rank {} is stuck at {} (action {} of {}): ", rank, stuck, done_[rank], schedule_.ranks[rank].size());
    const bool slot = std::string_view(missing.what) == "slot";
    line += slot ? fmt::format("no free slot of {} on the {} edge from stage {} to {}", (*depths_)[edge.id.index()], to_string(edge.kind),
                               edge.producer, edge.consumer)
                 : fmt::format("no {} of microbatch {} from stage {}", missing.what, stuck.microbatch, edge.producer);
    if (missing.source.index < 0) return line + ", which no rank makes\n";
    const std::size_t other = missing.source.rank.index();
    const Action& source = schedule_.ranks[other][static_cast<std::size_t>(missing.source.index)];
    line += fmt::format(", which {} on rank {} {}", source, other, slot ? "gives back" : "makes");
    if (const Action* blocked = head(other)) line += fmt::format("; rank {} is stuck at {}", other, *blocked);
    return line + "\n";
  }

  static void find_cycle(const std::vector<int>& waits_for, Liveness& result) {
    for (std::size_t start = 0; start < waits_for.size(); ++start) {
      std::vector<RankId> path;
      int rank = static_cast<int>(start);
      while (rank >= 0 && std::find(path.begin(), path.end(), RankId{rank}) == path.end()) {
        path.emplace_back(rank);
        rank = waits_for[static_cast<std::size_t>(rank)];
      }
      if (rank < 0) continue;
      result.cycle.assign(std::find(path.begin(), path.end(), RankId{rank}), path.end());
      result.report += fmt::format("cycle: rank {}", result.cycle.front());
      for (std::size_t i = 1; i <= result.cycle.size(); ++i) {
        result.report +=
            fmt::format(" waits for rank {}{}", result.cycle[i % result.cycle.size()], i < result.cycle.size() ? ", which" : "");
      }
      result.report += "\n";
      return;
    }
  }

  const Schedule& schedule_;
  ActionTable table_;
  std::vector<Edge> edges_;
  const std::optional<std::vector<int>>& depths_;
  bool forward_only_;
  std::vector<int> done_;  // by rank: finished actions
};

}  // namespace

void check_well_formed(const Schedule& schedule) {
  const auto stages = static_cast<std::size_t>(schedule.placement.stages());
  MILLRACE_CHECK(schedule.microbatches >= 1, ExitCode::config, who, "schedule \"{}\" has {} microbatches, wanted 1 or more", schedule.name,
                 schedule.microbatches);
  MILLRACE_CHECK(static_cast<int>(schedule.ranks.size()) == schedule.placement.ranks(), ExitCode::config, who,
                 "schedule \"{}\" has {} lists, wanted one for each of {} ranks", schedule.name, schedule.ranks.size(),
                 schedule.placement.ranks());
  const bool forward_only = schedule.forward_only();
  std::vector<Seen> seen(stages * static_cast<std::size_t>(schedule.microbatches));
  std::vector<std::array<int, 3>> newest(stages, {-1, -1, -1});
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const Action& action : schedule.ranks[rank]) {
      check_range(schedule, RankId{rank}, action);
      Seen& entry = seen[action.stage.index() * static_cast<std::size_t>(schedule.microbatches) + action.microbatch.index()];
      check_history(RankId{rank}, action, entry, forward_only);
      ++entry.of(action.kind);
      int& before = newest[action.stage.index()][order_of(action.kind)];
      MILLRACE_CHECK(before < action.microbatch.value, ExitCode::config, who,
                     "rank {}, action {}: comes after microbatch {} of this stage; microbatches must rise for F, for I and B, and for W",
                     rank, action, before);
      before = action.microbatch.value;
    }
  }
  check_complete(schedule, seen, forward_only);
}

Liveness replay_untimed(const Schedule& schedule, const std::optional<std::vector<int>>& depths) { return Replay(schedule, depths).run(); }

void check_schedule(const Schedule& schedule, const std::optional<std::vector<int>>& depths) {
  check_well_formed(schedule);
  const Liveness liveness = replay_untimed(schedule, depths);
  MILLRACE_CHECK(liveness.live, ExitCode::config, who, "schedule \"{}\" is dead, its ranks wait for each other:\n{}", schedule.name,
                 liveness.report);
}

}  // namespace millrace::runtime
