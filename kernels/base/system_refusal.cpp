#include "kernels/base/system_refusal.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <latch>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "kernels/base/count.hpp"

namespace millrace {
namespace {

std::optional<std::uint64_t> soft_limit(__rlimit_resource_t resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

/// Bytes of address space that this process uses.
std::uint64_t address_space() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::string memory_limits() {
  const auto limit = soft_limit(RLIMIT_AS);
  if (!limit) return "";
  return fmt::format("its address space is limited to {} (ulimit -v), of which {} are in use", byte_count(*limit),
                     byte_count(address_space()));
}

std::string thread_limits() {
  auto text = memory_limits();
  if (const auto limit = soft_limit(RLIMIT_NPROC))
    text += fmt::format("{}its user is limited to {} processes and threads (ulimit -u)", text.empty() ? "" : "; ", *limit);
  return text + (text.empty() ? "" : "; ") + "its control group may have a limit as well (pids.max)";
}

/// What a thread takes beside its stack before it can report an error: its first small allocation may begin a heap of its own.
struct FirstMemory {
  std::vector<char> small = std::vector<char>(64), large = std::vector<char>(std::size_t{1} << 20);
};

}  // namespace

Error refused_thread(const std::string& which, const char* component) {
  return {ExitCode::memory, fmt::format("[{}] the system refused {}: {}", component, which, thread_limits())};
}

Error as_error(const std::exception& error, const char* component) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) return *known;
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) return refused_thread("a thread", component);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr || (system != nullptr && system->code() == std::errc::not_enough_memory)) {
    const auto limits = memory_limits();
    return {ExitCode::memory,
            fmt::format("[{}] the system refused memory to this process{}{}", component, limits.empty() ? "" : ": ", limits)};
  }
  return {ExitCode::internal, fmt::format("[{}] {}", component, error.what())};
}

void check_threads_start(int threads, const char* component, const char* user) {
  std::latch all(threads);
  std::atomic<bool> has_memory{true};
  std::vector<std::thread> started;
  started.reserve(static_cast<std::size_t>(threads));
  for (int thread = 0; thread < threads; ++thread) {
    try {
      started.emplace_back([&all, &has_memory] {
        try {
          const FirstMemory memory;
          all.arrive_and_wait();
        } catch (const std::bad_alloc&) {
          has_memory = false;
          all.count_down();
        }
      });
    } catch (const std::system_error&) {
      all.count_down(threads - thread);
      for (auto& one : started) one.join();
      throw refused_thread(fmt::format("thread {} of the {} that {} needs", thread + 1, threads, user), component);
    }
  }
  for (auto& one : started) one.join();
  if (!has_memory) throw as_error(std::bad_alloc(), component);
}

}  // namespace millrace
