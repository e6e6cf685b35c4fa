#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "tests/kernels/fixture.hpp"

namespace {

constexpr std::size_t large_bytes = 4096;  // as large_allocations() says
std::atomic<std::int64_t> large_count{0};

[[maybe_unused]] void count_if_large(std::size_t bytes) {
  if (bytes >= large_bytes) large_count.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// These functions replace glibc's for the whole process, so that the allocations of operator new, which calls malloc, and of libraries are
// counted too. Sanitizers replace malloc themselves: under them the count stays 0, and tests that use it check nothing.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  count_if_large(bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t elements, std::size_t bytes) {
  count_if_large(elements * bytes);
  return __libc_calloc(elements, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  count_if_large(bytes);
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count_if_large(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  count_if_large(bytes);
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}  // extern "C"
#endif

namespace millrace::kernels::testing {

std::int64_t large_allocations() { return large_count.load(); }

}  // namespace millrace::kernels::testing
