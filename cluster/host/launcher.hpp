#pragma once

#include <chrono>

namespace millrace::cluster {

/// Sees to it that the launcher above this process (mpirun, or its daemon on another host) ends too: a helper process kills it after
/// `grace` if it is still there. Where a network is cut mpirun waits without end for daemons that it cannot reach, although every process
/// of the job has left. Does nothing when the parent is no launcher. Called on the way out, by any thread.
void end_launcher_after(std::chrono::seconds grace) noexcept;

}  // namespace millrace::cluster
