#pragma once

#include <string>

#include "runtime/schedule/ledger.hpp"
#include "runtime/schedule/simulator/lost_time.hpp"
#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

// A simulated step in words and numbers. Times are in the unit of the costs. `simulation` is simulate(schedule, costs), with its trace.

/// Makespan, span, both bubbles (measures.hpp), the largest peak. Four lines.
[[nodiscard]] std::string print_measures(const Schedule& schedule, const Simulation& simulation);

/// A line a rank: stages, busy, idle, peak.
[[nodiscard]] std::string print_ranks(const Schedule& schedule, const Simulation& simulation);

/// A line a rank: what it waited for. Busy time and waits of a rank add up to the makespan.
[[nodiscard]] std::string print_waits(const Schedule& schedule, const Simulation& simulation);

/// A line a stage: slots of its stashes and of the rings of what it receives.
[[nodiscard]] std::string print_slots(const Schedule& schedule, const Ledger& ledger);

/// What the longest chain is made of, and which inputs it depends on most.
[[nodiscard]] std::string print_critical_path(const Schedule& schedule, const Costs& costs, const Simulation& simulation);

/// All of it as one JSON object, two spaces a level, with a newline at the end:
///
///     schedule, placement, ranks, chunks, microbatches, hash
///     makespan, bubble, bubble_time, span, span_bubble, span_bubble_time, peak (a number for each rank)
///     rank_times: busy, idle and the waits of each rank
///     lost_time: work and what each cause costs
///     critical_path: time by kind of action, in transfers and launches, by rank
///     sensitivity: what the makespan gains by one unit more of an input, where it gains anything
[[nodiscard]] std::string to_json(const Schedule& schedule, const Costs& costs, const Simulation& simulation, const LostTime& lost);

}  // namespace millrace::runtime
