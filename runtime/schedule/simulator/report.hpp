#pragma once

#include <string>

#include "runtime/schedule/ledger.hpp"
#include "runtime/schedule/simulator/lost_time.hpp"
#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

// Reports of a simulated step as text and JSON. Times are in the unit of the costs. `simulation` is simulate(schedule, costs),
// with its trace.

/// Makespan, span, both bubbles (measures.hpp), the largest peak. Four lines.
[[nodiscard]] std::string print_measures(const Schedule& schedule, const Simulation& simulation);

/// One line per rank: stages, busy, idle, peak.
[[nodiscard]] std::string print_ranks(const Schedule& schedule, const Simulation& simulation);

/// One line per rank: what it waited for. Busy time and waits of a rank add up to the makespan.
[[nodiscard]] std::string print_waits(const Schedule& schedule, const Simulation& simulation);

/// One line per stage: slots of its stashes and of the rings of its inputs.
[[nodiscard]] std::string print_slots(const Schedule& schedule, const Ledger& ledger);

/// The composition of the critical path, and the inputs that it is most sensitive to.
[[nodiscard]] std::string print_critical_path(const Schedule& schedule, const Costs& costs, const Simulation& simulation);

/// The whole report as one JSON object, indented by two spaces per level, with a trailing newline:
///
///     schedule, placement, ranks, chunks, microbatches, hash
///     makespan, bubble, bubble_time, span, span_bubble, span_bubble_time, peak (one number per rank)
///     rank_times: busy, idle and the waits of each rank
///     lost_time: work and the cost of each cause
///     critical_path: time by kind of action, in transfers and launches, by rank
///     sensitivity: increase of the makespan per unit increase of an input, if it is not 0
[[nodiscard]] std::string to_json(const Schedule& schedule, const Costs& costs, const Simulation& simulation, const LostTime& lost);

}  // namespace millrace::runtime
