#pragma once

namespace millrace::kernels {

/// Bytes a second that `threads` threads move through memory at best, read and written counted both: the fastest of some copies between two
/// buffers of 64 MiB together, which no cache near a core keeps, timed here and now for about 60 ms. What operations that hardly multiply
/// are held against. `threads` at least 1.
[[nodiscard]] double measured_copy_bandwidth(int threads);

}  // namespace millrace::kernels
