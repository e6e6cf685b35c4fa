#include "runtime/schedule/replay.hpp"

#include <algorithm>
#include <limits>

#include "kernels/base/check.hpp"
#include "runtime/schedule/causality.hpp"

namespace millrace::runtime {
namespace {

// Most stashes alive at once along a list, in microbatches of a whole rank.
double peak_of(const std::vector<Action>& list, std::size_t chunks) {
  int held = 0;
  int most = 0;
  for (const Action& action : list) {
    if (action.kind == ActionKind::forward) most = std::max(most, ++held);
    if (ends_microbatch(action.kind)) --held;
  }
  return static_cast<double>(most) / static_cast<double>(chunks);
}

void summarise(Timeline& timeline) {
  double first = std::numeric_limits<double>::infinity();
  double last = 0;
  for (const auto& list : timeline.ranks) {
    double busy = 0;
    for (const TimedAction& timed : list) busy += timed.end - timed.begin;
    timeline.busy.push_back(busy);
    if (list.empty()) continue;
    first = std::min(first, list.front().begin);
    last = std::max(last, list.back().end);
    timeline.span = std::max(timeline.span, list.back().end - list.front().begin);
  }
  timeline.makespan = std::max(0.0, last - first);
}

}  // namespace

double StageCost::of(ActionKind kind) const {
  switch (kind) {
    case ActionKind::forward:
      return forward;
    case ActionKind::input_gradient:
      return input_gradient;
    case ActionKind::weight_gradient:
      return weight_gradient;
    case ActionKind::backward:
      return backward;
  }
  return 0;
}

std::vector<StageCost> uniform_costs(const Placement& placement, double forward, double input_gradient, double weight_gradient) {
  std::vector<StageCost> costs;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    const auto chunks = static_cast<double>(placement.stages_of(placement.rank_of(StageId{stage})).size());
    costs.push_back({forward / chunks, input_gradient / chunks, weight_gradient / chunks, (input_gradient + weight_gradient) / chunks});
  }
  return costs;
}

double Timeline::worst_peak() const { return peak.empty() ? 0 : *std::max_element(peak.begin(), peak.end()); }

Timeline replay(const Schedule& schedule, const std::vector<StageCost>& costs, double hop) {
  MILLRACE_CHECK(static_cast<int>(costs.size()) == schedule.placement.stages(), ExitCode::internal, "runtime.schedule",
                 "{} stage costs, wanted one for each of {} stages", costs.size(), schedule.placement.stages());
  Timeline timeline;
  timeline.ranks.resize(schedule.ranks.size());
  std::vector<double> free(schedule.ranks.size(), 0);
  const ActionTable table(schedule);
  for (const ActionPlace& place : causal_order(schedule, table)) {
    const std::size_t rank = place.rank.index();
    const Action& action = schedule.ranks[rank][static_cast<std::size_t>(place.index)];
    double begin = free[rank];
    if (const auto source = table.token_source(action)) {
      const double made = timeline.ranks[source->rank.index()][static_cast<std::size_t>(source->index)].end;
      begin = std::max(begin, made + (source->rank == place.rank ? 0 : hop));
    }
    free[rank] = begin + costs[action.stage.index()].of(action.kind);
    timeline.ranks[rank].push_back({action, begin, free[rank]});
  }
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    timeline.peak.push_back(peak_of(schedule.ranks[rank], schedule.placement.stages_of(RankId{rank}).size()));
  }
  summarise(timeline);
  return timeline;
}

}  // namespace millrace::runtime
