#pragma once

#include <vector>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// When the consumer frees the slot of a boundary: when the action that needs it begins (the data are copied away), when that
/// action ends (the data are read in place), or with the last use of the microbatch (W or B: the slot is the saved input, as in
/// this engine's rings).
enum class SlotRelease { begin, end, last_use };

/// By EdgeId: the peak number of slots occupied at once at the times of this simulation, from a boundary's arrival on (from its
/// production on an edge within a rank). With that many slots this run is not slowed down; make_ledger() gives the number for any
/// timing. 0 for an unused edge. `simulation` is simulate(schedule, costs) without bounds on slots.
[[nodiscard]] std::vector<int> slots_used(const Schedule& schedule, const Costs& costs, const Simulation& simulation, SlotRelease release);

}  // namespace millrace::runtime
