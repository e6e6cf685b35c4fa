#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "runtime/profile/profile.hpp"
#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

inline std::int64_t nanoseconds(double milliseconds) { return std::llround(milliseconds * 1e6); }

/// Adds the records of one step that ranks would leave if they did exactly what the simulator says: actions, the waits between
/// them, an optimizer of 1 ms half a millisecond after the last action of all ranks, and the step's own record. Begins at
/// `origin`.
inline void add_step(std::vector<RankTrace>& traces, const Schedule& schedule, const Costs& costs, StepId step, std::int64_t origin) {
  const Simulation simulation = simulate(schedule, costs);
  traces.resize(schedule.ranks.size());
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    auto& trace = traces[rank];
    trace.rank = RankId(rank);
    std::int64_t free = origin;
    const auto add = [&](SpanKind kind, std::int64_t begin, std::int64_t end, const Action* action, WaitReason reason) {
      TraceRecord record;
      record.begin = begin;
      record.end = end;
      record.step = step;
      record.kind = kind;
      record.reason = reason;
      if (action) record.stage = action->stage, record.microbatch = action->microbatch;
      trace.compute.push_back(record);
    };
    for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) {
      const Action& action = schedule.ranks[rank][index];
      const std::size_t at = simulation.first[rank] + index;
      const std::int64_t begin = origin + nanoseconds(simulation.begin[at]), end = origin + nanoseconds(simulation.end[at]);
      const auto reason = action.kind == ActionKind::forward ? WaitReason::activation : WaitReason::gradient;
      if (begin > free) add(SpanKind::wait, free, begin, &action, reason);
      add(span_of(action.kind), begin, end, &action, WaitReason::none);
      free = end;
    }
    const std::int64_t end = origin + nanoseconds(simulation.makespan);
    add(SpanKind::step, origin, free, nullptr, WaitReason::none);
    add(SpanKind::optimizer, end + nanoseconds(0.5), end + nanoseconds(1.5), nullptr, WaitReason::none);
  }
}

/// A number of steps, one after another, of one process.
inline Measured made_up(const Schedule& schedule, const Costs& costs, int steps = 2) {
  Measured measured;
  measured.schedule = schedule;
  measured.clocks.push_back({0, "here", true, 0, 0, 0, 0, 0});
  measured.process_of_rank.assign(schedule.ranks.size(), 0);
  measured.layers.assign(static_cast<std::size_t>(schedule.placement.stages()), 1);
  const std::int64_t length = nanoseconds(simulate(schedule, costs, false).makespan + 3);
  for (int step = 1; step <= steps; ++step) {
    add_step(measured.traces, schedule, costs, StepId(step), 5'000'000'000 + step * length);
    measured.steps.emplace_back(step);
    measured.losses.push_back(5.5 - step);
  }
  return measured;
}

/// F, I and W of 2 ms each on every stage.
inline Costs even(const Schedule& schedule) {
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(schedule.placement.stages()), {2, 2, 2, 4});
  return costs;
}

}  // namespace millrace::runtime
