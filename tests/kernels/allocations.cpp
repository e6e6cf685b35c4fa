#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/kernels/fixture.hpp"

namespace {

std::atomic<std::int64_t> large{0};

[[maybe_unused]] void count(std::size_t bytes) {
  if (bytes >= 4096) large.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// Sanitizers own malloc; without them every allocation of the process goes through here, including oneDNN's (operator new calls
// malloc).
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  count(bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t number, std::size_t bytes) {
  count(number * bytes);
  return __libc_calloc(number, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  count(bytes);
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  count(bytes);
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? 12 : 0;
}
}
#endif

namespace millrace::kernels::testing {

std::int64_t large_allocations() { return large.load(); }

}  // namespace millrace::kernels::testing
