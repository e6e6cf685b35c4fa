#pragma once

#include "cluster/links/mpi_world.hpp"

namespace millrace::cluster {

/// Whether MPI transfers a long message between the processes of a communicator, all on this host, in one step: the receiver copies it from
/// the sender's memory, while it polls or posts. Otherwise long messages move part by part, during polls of both. Open MPI says so in a
/// control variable of its transport over shared memory; since containers may forbid such copies, each process also tries to read from the
/// others. Collective; the same in all; on the transport thread, after MPI_Init.
[[nodiscard]] bool single_copy_transfers(MPI_Comm communicator);

}  // namespace millrace::cluster
