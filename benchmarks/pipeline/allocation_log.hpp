#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Intercepts every malloc, calloc, realloc, aligned_alloc and posix_memalign of the program (operator new calls malloc),
/// including those in libraries. It is enabled by linking allocation_log.cpp into an executable.
namespace millrace::benchmarks {

/// One place in the program that allocated, on one thread.
struct AllocationSite {
  std::string thread;               // the thread's given name; "other" for threads without one
  std::vector<std::string> frames;  // innermost first, including inlined functions
  std::uint64_t count = 0;          // number of allocations
  std::size_t largest = 0;          // bytes
};

/// Names the calling thread in the results. `name` must outlive the program.
void name_this_thread(const char* name) noexcept;
/// Discards the counts so far and starts counting.
void start_counting() noexcept;
void stop_counting() noexcept;
/// The counts; symbols come from addr2line (binutils) if it is installed. Not to be called while counting.
[[nodiscard]] std::vector<AllocationSite> allocation_sites();

}  // namespace millrace::benchmarks
