#include "runtime/schedule/causality.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"

namespace millrace::runtime {

ActionTable::ActionTable(const Schedule& schedule)
    : placement_(&schedule.placement), microbatches_(static_cast<std::size_t>(schedule.microbatches)) {
  const std::size_t entries = static_cast<std::size_t>(schedule.placement.stages()) * microbatches_;
  forward_.assign(entries, -1);
  gradient_.assign(entries, -1);
  last_.assign(entries, -1);
  for (const auto& list : schedule.ranks) {
    for (std::size_t index = 0; index < list.size(); ++index) {
      const Action& action = list[index];
      const std::size_t entry = at(action.stage, action.microbatch);
      if (action.kind == ActionKind::forward) forward_.at(entry) = static_cast<int>(index);
      if (makes_gradient(action.kind)) gradient_.at(entry) = static_cast<int>(index);
      if (ends_microbatch(action.kind)) last_.at(entry) = static_cast<int>(index);
    }
  }
}

std::optional<ActionPlace> ActionTable::boundary_source(const Action& action) const {
  const bool forward = action.kind == ActionKind::forward;
  if (!forward && !makes_gradient(action.kind)) return std::nullopt;
  const auto maker = forward ? placement_->previous(action.stage) : placement_->next(action.stage);
  if (!maker) return std::nullopt;
  return ActionPlace{placement_->rank_of(*maker), forward ? this->forward(*maker, action.microbatch) : gradient(*maker, action.microbatch)};
}

std::vector<ActionPlace> causal_order(const Schedule& schedule, const ActionTable& table) {
  std::vector<ActionPlace> order;
  std::vector<int> done(schedule.ranks.size(), 0);
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      const auto& list = schedule.ranks[rank];
      while (static_cast<std::size_t>(done[rank]) < list.size()) {
        const auto source = table.boundary_source(list[static_cast<std::size_t>(done[rank])]);
        if (source && (source->index < 0 || done[source->rank.index()] <= source->index)) break;
        order.push_back({RankId{rank}, done[rank]++});
        moved = true;
      }
    }
  }
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const auto& list = schedule.ranks[rank];
    MILLRACE_CHECK(static_cast<std::size_t>(done[rank]) == list.size(), ExitCode::config, "runtime.schedule",
                   "schedule \"{}\" cannot complete: rank {} stops before its action {}, {}", schedule.name, rank, done[rank],
                   list[static_cast<std::size_t>(done[rank])]);
  }
  return order;
}

std::vector<std::vector<int>> finished_before_start(const Schedule& schedule, const ActionTable& table,
                                                    const std::vector<ActionPlace>& order, RankId observed) {
  std::vector<std::vector<int>> known;
  for (const auto& list : schedule.ranks) known.emplace_back(list.size(), 0);
  // The halves of a pair may run at the same time: when the second starts, the first need not have finished, nor when it has finished.
  const auto is_second_half = [&](RankId rank, int index) {
    return index > 0 && schedule.ranks[rank.index()][static_cast<std::size_t>(index - 1)].overlaps_next;
  };
  for (const ActionPlace& place : order) {
    const auto index = static_cast<std::size_t>(place.index);
    auto& own = known[place.rank.index()];
    const int before = is_second_half(place.rank, place.index) ? place.index - 1 : place.index;  // entries that have finished
    if (place.rank == observed) {
      own[index] = before;
      continue;
    }
    int finished = before > 0 ? own[static_cast<std::size_t>(before) - 1] : 0;
    if (is_second_half(place.rank, before - 1)) finished = std::max(finished, own[static_cast<std::size_t>(before) - 2]);
    if (const auto source = table.boundary_source(schedule.ranks[place.rank.index()][index])) {
      // The boundary exists, so its producer has finished: on the observed rank that is one entry more than before the producer's
      // start.
      const int at_start = known[source->rank.index()][static_cast<std::size_t>(source->index)];
      const auto on_observed = [&] { return is_second_half(observed, source->index) ? source->index - 1 : source->index + 1; };
      finished = std::max(finished, source->rank == observed ? on_observed() : at_start);
    }
    own[index] = finished;
  }
  return known;
}

}  // namespace millrace::runtime
