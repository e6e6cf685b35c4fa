#pragma once

#include <vector>

#include "runtime/schedule/simulator/cost.hpp"
#include "runtime/schedule/simulator/transport.hpp"

namespace millrace::runtime {

/// How long a step takes where transfers wait for each other in the queues of `transport`: each is posted at both ends as the lists of the
/// full table come to it, begins when it heads the queues of both ends and holds them for `latency`; with `free` it holds nothing.
/// Lists do not wait for their transfers, actions wait for their tokens. This is what a queue shared by several edges costs; simulate() has
/// a channel for every edge. Error(config) for a rendezvous, which has no queues, and where the schedule is dead.
[[nodiscard]] double transport_makespan(const Schedule& schedule, const std::vector<StageCost>& costs, double latency, Transport transport);

}  // namespace millrace::runtime
