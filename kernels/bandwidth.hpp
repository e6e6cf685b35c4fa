#pragma once

namespace millrace::kernels {

/// Memory bandwidth in bytes per second that `threads` threads reach, counting reads and writes: the fastest of several copies
/// between two buffers of 64 MiB together, which do not fit into a core's caches; takes about 60 ms. Operations with few
/// multiplications are compared with it. `threads` is at least 1.
[[nodiscard]] double measured_copy_bandwidth(int threads);

}  // namespace millrace::kernels
