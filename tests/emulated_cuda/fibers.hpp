#pragma once

#include <cstddef>
#include <functional>

#include "tests/emulated_cuda/include/vector_types.h"

namespace emulated_cuda {

/// Calls body() for each thread of each block, on the calling OS thread: blocks one after the other, the threads of a block as fibers that
/// run until they return or wait for each other. A kernel whose threads never wait is a plain loop on one fiber. Threads that wait
/// forever (at a barrier that some threads skipped) end the process with a message.
void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& body);

}  // namespace emulated_cuda
