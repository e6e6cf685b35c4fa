#include "tests/cluster/allocation_count.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::int64_t> counted_allocations{0};
}

// Not inlined, or the compiler would see free() paired with new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  counted_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace millrace::tests {

std::int64_t allocation_count() noexcept { return counted_allocations.load(std::memory_order_relaxed); }

}  // namespace millrace::tests
