#pragma once

#include <string>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// A step in the trace format of Chrome and Perfetto (JSON object form, "Trace Event Format" of the Chromium project). Each rank
/// is a process with the threads "compute" (an overlapped pair is one slice) and "waits" (what the next action waited for). An
/// arrow leads from the producer of each boundary to its consumer; transfers that take time are asynchronous slices; a counter
/// shows the microbatches held. One unit of the costs is written as a millisecond. `simulation` is simulate(schedule, costs),
/// with its trace. One event per line.
[[nodiscard]] std::string trace_events(const Schedule& schedule, const Costs& costs, const Simulation& simulation);

}  // namespace millrace::runtime
