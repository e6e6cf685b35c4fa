#pragma once

#include <cstddef>
#include <vector>

#include "cluster/topology.hpp"

namespace millrace::cluster {

/// The cores that the calling thread may run on, ascending.
std::vector<int> available_cores();

/// Lets this process (the calling thread, and threads that it starts later) run on all cores that it was given. Call it first in
/// main(). By default mpirun binds each of one or two processes to a single core, which worker, transport and pool would have to
/// share. A binding that the user asked for (`--bind-to …` or its MCA parameter) is kept. Returns the cores.
std::vector<int> widen_affinity();

/// Whether the user asked mpirun to bind each process to its own cores, which it then need not share with the host's other
/// processes.
bool bound_by_launcher();

/// Asks the kernel to run the calling thread, which mostly sleeps, as soon as it is woken: from Linux 6.12 on, a computing thread
/// otherwise first finishes its time slice of milliseconds. Has no effect on other kernels, or if the kernel refuses.
void run_soon_when_woken() noexcept;

/// The default of `train.threads`, threads per rank: this host's cores ÷ the ranks hosted on it, at least 1.
int automatic_threads(const Topology& topology, const Launch& launch, int cores);

/// The cores for the worker team of each rank of this process, if the host's cores suffice for all teams: out[i] has `threads`
/// cores of rank first_rank() + i, not shared with other ranks or local processes. Empty lists (no pinning) if they do not
/// suffice.
std::vector<std::vector<int>> worker_cores(const Topology& topology, const Launch& launch, const std::vector<int>& cores, int threads);

}  // namespace millrace::cluster
