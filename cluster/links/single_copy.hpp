#pragma once

namespace millrace::cluster {

/// Whether MPI transfers a long message between processes of this host in one step: the receiver copies it from the sender's memory, while
/// it polls or posts. Otherwise (containers may forbid it) long messages move part by part, during polls of both. Open MPI says so in a
/// control variable of its transport over shared memory; false if MPI does not. On the transport thread, after MPI_Init.
[[nodiscard]] bool single_copy_transfers();

}  // namespace millrace::cluster
