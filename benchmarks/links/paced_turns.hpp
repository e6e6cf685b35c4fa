#pragma once

#include <vector>

#include "benchmarks/links/turns.hpp"
#include "cluster/links/transport.hpp"

namespace millrace::cluster {

// A message to process 1 and its answer, `turns` times, with a pause of 0.5 to 2 ms before each: each message meets the machine
// in its normal state, while a loop without pauses ends before the scheduler intervenes. Both processes call the same function at
// the same time; process 0 gets half of each round trip's seconds.

/// Uses MPI_Send and MPI_Recv on the transport thread.
std::vector<double> paced_mpi(Transport& transport, Case& test, int turns);
/// Uses a link opened for it: sent by the caller's thread, answered as soon as the transport delivers the message.
std::vector<double> paced_link(Transport& transport, Case& test, int turns);

}  // namespace millrace::cluster
