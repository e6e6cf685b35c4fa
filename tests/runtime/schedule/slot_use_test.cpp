#include "runtime/schedule/simulator/slot_use.hpp"

#include <algorithm>

#include "runtime/schedule/ledger.hpp"
#include "tests/runtime/schedule/random_costs.hpp"

namespace millrace::runtime {
namespace {

struct Most {
  int activation = 0, gradient = 0;
  friend bool operator==(const Most&, const Most&) = default;
};

Most most_slots(const ScheduleRequest& request, SlotRelease release) {
  const Schedule schedule = make_schedule(request);
  Costs costs;
  costs.stages = uniform_costs(schedule.placement, 1, 1, 1);
  costs.links = uniform_links(schedule.placement, 0.05);
  const auto used = slots_used(schedule, costs, simulate(schedule, costs), release);
  Most most;
  for (const Edge& edge : edges_of(schedule.placement)) {
    if (edge.local()) continue;
    int& of_kind = edge.kind == BoundaryKind::activation ? most.activation : most.gradient;
    of_kind = std::max(of_kind, used[edge.id.index()]);
  }
  return most;
}

TEST(SlotUse, OfEverySchedule) {
  struct Row {
    ScheduleRequest small, large;  // 4 ranks and 16 microbatches, 8 and 32
    Most begin[2], end[2];
  };
  const auto row = [](const char* name, int chunks, Most begin4, Most begin8, Most end4, Most end8, int group = 0) {
    Row result{{name, 4, chunks, 16, {}}, {name, 8, chunks, 32, {}}, {begin4, begin8}, {end4, end8}};
    if (group > 0) {
      result.small.group = 4 * group;
      result.large.group = 8 * group;
    }
    return result;
  };
  const Row rows[] = {
      row("1f1b", 1, {1, 1}, {1, 1}, {2, 1}, {2, 1}),
      row("zb-h1", 1, {1, 1}, {1, 1}, {2, 1}, {2, 1}),
      row("gpipe", 1, {1, 1}, {1, 1}, {2, 2}, {2, 2}),
      row("zb-v", 2, {2, 1}, {2, 1}, {2, 1}, {2, 1}),
      row("dualpipe", 1, {2, 1}, {2, 1}, {2, 1}, {2, 1}),
      row("dualpipe-v", 2, {2, 1}, {2, 1}, {2, 1}, {2, 1}),
      row("zb-h2", 1, {2, 1}, {2, 1}, {2, 2}, {2, 2}),
      row("interleaved", 2, {2, 2}, {2, 3}, {2, 2}, {2, 3}),
      row("interleaved-zb", 2, {3, 2}, {6, 4}, {3, 3}, {6, 5}),
      row("interleaved", 2, {4, 6}, {8, 11}, {5, 6}, {9, 12}, 2),
      row("looped-bfs", 2, {12, 12}, {24, 24}, {13, 13}, {25, 25}),
  };
  for (const Row& wanted : rows) {
    for (int size : {0, 1}) {
      const ScheduleRequest& request = size == 0 ? wanted.small : wanted.large;
      const Most begin = most_slots(request, SlotRelease::begin);
      const Most end = most_slots(request, SlotRelease::end);
      EXPECT_EQ(begin, wanted.begin[size]) << name_of(request) << " " << begin.activation << " " << begin.gradient;
      EXPECT_EQ(end, wanted.end[size]) << name_of(request) << " " << end.activation << " " << end.gradient;
    }
  }
}

TEST(SlotUse, NeverAboveTheLedgerWhichHoldsForAnyTiming) {
  RandomRuns runs(61);
  for (int trial = 0; trial < 400; ++trial) {
    RandomRun run = runs.next();
    run.costs.slots.clear();
    const auto used = slots_used(run.schedule, run.costs, simulate(run.schedule, run.costs), SlotRelease::last_use);
    const auto depths = make_ledger(run.schedule).depths;
    for (std::size_t edge = 0; edge < used.size(); ++edge) EXPECT_LE(used[edge], depths[edge]) << run.schedule.name;
    const double free = simulate(run.schedule, run.costs, false).makespan;
    run.costs.slots = depths;
    EXPECT_EQ(simulate(run.schedule, run.costs, false).makespan, free) << run.schedule.name;
  }
}

}  // namespace
}  // namespace millrace::runtime
