#pragma once

#include <string>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// A step in the trace format of Chrome and Perfetto (JSON object form, "Trace Event Format" of the Chromium project): a process a rank,
/// with the threads "compute" (an overlapped pair is one slice) and "waits" (what the next action waited for), an arrow from every token's
/// maker to its user, transfers that take time as asynchronous slices, and a counter of the microbatches held. One unit of the costs is
/// written as a millisecond. `simulation` is simulate(schedule, costs), with its trace. One event a line.
[[nodiscard]] std::string trace_events(const Schedule& schedule, const Costs& costs, const Simulation& simulation);

}  // namespace millrace::runtime
