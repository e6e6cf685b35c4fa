#pragma once

#include <vector>

#include "benchmarks/links/turns.hpp"
#include "cluster/links/transport.hpp"

namespace millrace::cluster {

// A message to process 1 and its answer, `turns` times with a pause of 0.5 to 2 ms before each: every one meets the machine as it is, while
// a loop without pauses is through before a scheduler looks at it. Both processes call the same at the same time; process 0 gets half of
// each turn's seconds.

/// MPI_Send and MPI_Recv on the transport thread.
std::vector<double> paced_mpi(Transport& transport, Case& test, int turns);
/// Over a link opened for it: sent by the caller's thread, answered as soon as the transport hands over what has arrived.
std::vector<double> paced_link(Transport& transport, Case& test, int turns);

}  // namespace millrace::cluster
