#pragma once

#include <chrono>

namespace millrace::cluster {

/// Ensures that the launcher above this process (mpirun, or its daemon on another host) ends too: a helper process kills it after
/// `grace` if it still exists. After a network partition mpirun waits forever for daemons that it cannot reach, although every
/// process of the job has exited. Does nothing if the parent is not a launcher. Called during the exit of the process, by any
/// thread.
void end_launcher_after(std::chrono::seconds grace) noexcept;

}  // namespace millrace::cluster
