#pragma once

#include "runtime/schedule/simulator/simulate.hpp"
#include "runtime/schedule/wiring.hpp"

namespace millrace::runtime {

/// Divides the time before each action among the events that it waited for: fills the waits of `simulation.ranks` and
/// `simulation.edges` from its bindings. The last part of simulate() with trace.
void share_waits(const Schedule& schedule, const Costs& costs, const Wiring& wiring, Simulation& simulation);

}  // namespace millrace::runtime
