#pragma once

#include <vector>

#include "runtime/schedule/simulator/cost.hpp"
#include "runtime/schedule/simulator/transfer_order.hpp"

namespace millrace::runtime {

/// The makespan of a step if transfers wait for each other in the queues of `order`. Each transfer is posted at both ends
/// when the lists of the full table reach it, begins when it is at the head of both queues, and occupies them for `latency`; with
/// `free` it occupies nothing. Lists do not wait for their transfers, only actions wait for their inputs. This shows the cost of
/// queues shared by several edges; simulate() has a channel for every edge. Error(config) for a rendezvous, which has no queues,
/// and if the schedule deadlocks.
[[nodiscard]] double transfer_makespan(const Schedule& schedule, const std::vector<StageCost>& costs, double latency, TransferOrder order);

}  // namespace millrace::runtime
