#pragma once

#include <cstddef>
#include <vector>

#include "cluster/topology.hpp"

namespace millrace::cluster {

/// The cores that the calling thread may run on, ascending.
std::vector<int> available_cores();

/// Lets this process (the calling thread, and the threads that it starts later) run on all cores that it was given. Call it first in
/// main(). mpirun binds each of one or two processes to a single core by default, where worker, transport and pool would take turns. A
/// binding that the user asked for (`--bind-to …` or its MCA parameter) is kept. Returns the cores.
std::vector<int> widen_affinity();

/// Whether the user asked mpirun to bind each process to cores of its own, which it then need not share with the host's others.
bool bound_by_launcher();

/// Asks the kernel to let the calling thread, which mostly sleeps, run as soon as it is woken: from Linux 6.12 on a thread that computes
/// otherwise ends its time slice of milliseconds first. Other kernels, and those that refuse, leave things as they are.
void run_soon_when_woken() noexcept;

/// Threads per rank when `train.threads` is automatic: this host's cores ÷ the ranks hosted on it, at least 1.
int automatic_threads(const Topology& topology, const Launch& launch, int cores);

/// The cores for the worker team of each rank of this process, when the host's cores suffice for all teams: out[i] has `threads` cores of
/// rank first_rank() + i, none shared between ranks and local processes. Empty lists (no pinning) when they do not suffice.
std::vector<std::vector<int>> worker_cores(const Topology& topology, const Launch& launch, const std::vector<int>& cores, int threads);

}  // namespace millrace::cluster
