#pragma once

#include "cluster/links/transport.hpp"
#include "cluster/topology.hpp"

namespace millrace::cluster {

/// Where the suite of link tests runs: four ranks as threads of one process, or distributed over the processes of mpirun. Defined
/// by link_in_process_test.cpp and link_mpi_test.cpp.
struct LinkWorld {
  Topology topology;
  Transport* transport;
};
LinkWorld& link_world();

}  // namespace millrace::cluster
