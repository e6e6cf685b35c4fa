#pragma once

#include <vector>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// When the consumer gives the slot of a token back: when the action that needs the token begins (the data goes straight to where it is
/// kept), when that action ends (it is read in place), or with the last use of what the microbatch left (W or B: the slot is the saved
/// input, as in this engine's rings).
enum class SlotRelease { begin, end, last_use };

/// By EdgeId: the most slots that are taken at once at the times of this simulation, from a token's arrival on (over an edge within a rank
/// from its making). With that many slots this very run is not slowed; make_ledger tells how many it takes at any timing. 0 on an edge that
/// nothing passed. `simulation` is simulate(schedule, costs) without bounds on slots.
[[nodiscard]] std::vector<int> slots_used(const Schedule& schedule, const Costs& costs, const Simulation& simulation, SlotRelease release);

}  // namespace millrace::runtime
