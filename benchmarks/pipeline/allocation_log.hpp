#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Every malloc, calloc, realloc, aligned_alloc and posix_memalign of the program comes by here (operator new calls malloc), whichever
/// library asks. Linking allocation_log.cpp into an executable is what turns it on.
namespace millrace::benchmarks {

/// One place in the program that allocated, on one thread.
struct AllocationSite {
  std::string thread;               // as it was named; "other" for threads that were not
  std::vector<std::string> frames;  // innermost first, inlined functions too
  std::uint64_t count = 0;          // allocations
  std::size_t largest = 0;          // bytes
};

/// Names the calling thread in what follows. `name` must outlive the program.
void name_this_thread(const char* name) noexcept;
/// Forgets what was counted, and counts from now on.
void start_counting() noexcept;
void stop_counting() noexcept;
/// What was counted; symbols come from addr2line (binutils), where it is installed. Not while counting.
[[nodiscard]] std::vector<AllocationSite> allocation_sites();

}  // namespace millrace::benchmarks
