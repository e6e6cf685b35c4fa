#pragma once

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// simulate() for costs with exchanges. The entries of a rank are the segments of its list, in the order in which the rank runs them
/// (runtime/schedule/segment_list.hpp): the first waits for what the action needs, the others for the exchanges that they await; the output
/// is there after the last. So the halves of a woven pair have times of their own, and Costs::pairs has no meaning. The result has the
/// waits of ranks and edges, but neither bindings nor an order.
[[nodiscard]] Simulation simulate_segments(const Schedule& schedule, const Costs& costs);

}  // namespace millrace::runtime
