#include "benchmarks/pipeline/allocation_log.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <span>

namespace millrace::benchmarks {
namespace {

constexpr int kFrames = 32;
constexpr std::size_t kSites = 4096;

struct RawSite {
  const char* thread = nullptr;
  int depth = 0;
  std::array<void*, kFrames> stack{};
  std::uint64_t count = 0;
  std::size_t largest = 0;
};

std::atomic<bool> counting{false};
std::atomic_flag busy = ATOMIC_FLAG_INIT;
std::array<RawSite, kSites> sites;
std::size_t site_count = 0;
thread_local const char* thread_name = "other";
thread_local bool inside = false;  // backtrace() may itself allocate

void remember(std::size_t bytes) noexcept {
  if (!counting.load(std::memory_order_relaxed) || inside) return;
  inside = true;
  std::array<void*, kFrames> stack{};
  const int depth = backtrace(stack.data(), kFrames);
  while (busy.test_and_set(std::memory_order_acquire)) {
  }
  const auto* end = sites.begin() + site_count;
  auto* site = std::find_if(sites.begin(), sites.begin() + site_count,
                            [&](const RawSite& known) { return known.thread == thread_name && known.stack == stack; });
  if (site == end && site_count < kSites) {
    *site = {thread_name, depth, stack, 0, 0};
    ++site_count;
  }
  if (site_count < kSites || site != end) {
    ++site->count;
    site->largest = std::max(site->largest, bytes);
  }
  busy.clear(std::memory_order_release);
  inside = false;
}

std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : symbol;
}

using Functions = std::map<void*, std::vector<std::string>>;

/// Formats addresses of this executable as "function [file:line]", by their offsets in it; inlined functions come first.
void name_own(const std::map<std::uintptr_t, void*>& addresses, Functions& functions) {
  std::array<char, 4096> path{};
  if (realpath("/proc/self/exe", path.data()) == nullptr) return;
  // a single call, since it reads the whole debug information first
  std::string command = fmt::format("addr2line -aCfie '{}'", path.data());
  for (const auto& [offset, address] : addresses) command += fmt::format(" {:#x}", offset);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 16384> buffer{};
  const auto next_line = [&](std::string& line) {
    if (!pipe || std::fgets(buffer.data(), buffer.size(), pipe.get()) == nullptr) return false;
    line = buffer.data();
    line.erase(line.find_last_not_of('\n') + 1);
    return true;
  };
  std::vector<std::string>* at = nullptr;
  for (std::string line, place; next_line(line);) {
    if (line.starts_with("0x")) {
      const auto found = addresses.find(std::stoull(line, nullptr, 16));
      at = found == addresses.end() ? nullptr : &functions[found->second];
    } else if (next_line(place) && at != nullptr) {
      at->push_back(fmt::format("{} [{}]", line, place.substr(place.rfind('/') + 1)));
    }
  }
}

Functions functions_at(const std::set<void*>& addresses) {
  Functions functions;
  std::map<std::uintptr_t, void*> own;
  for (void* address : addresses) {
    Dl_info info{};
    link_map* map = nullptr;
    if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) {
      functions[address] = {"?"};
    } else if (map != nullptr && map->l_name != nullptr && *map->l_name != '\0') {  // a library: its dynamic symbols are enough
      const std::string file = info.dli_fname;
      functions[address] = {
          fmt::format("{} [{}]", info.dli_sname != nullptr ? demangled(info.dli_sname) : "?", file.substr(file.rfind('/') + 1))};
    } else {
      // the address of the call, not of what follows it
      own[reinterpret_cast<std::uintptr_t>(address) - (map != nullptr ? map->l_addr : 0) - 1] = address;
    }
  }
  name_own(own, functions);
  return functions;
}

}  // namespace

void name_this_thread(const char* name) noexcept { thread_name = name; }

void start_counting() noexcept {
  std::array<void*, kFrames> stack{};
  (void)backtrace(stack.data(), kFrames);  // loads the unwinder
  site_count = 0;
  counting = true;
}

void stop_counting() noexcept { counting = false; }

std::vector<AllocationSite> allocation_sites() {
  std::vector<AllocationSite> all;
  std::set<void*> addresses;
  const auto frames_of = [](const RawSite& raw) {  // remember() and malloc itself are left out
    return std::span(raw.stack).subspan(2, static_cast<std::size_t>(std::max(raw.depth, 2)) - 2);
  };
  for (std::size_t i = 0; i < site_count; ++i)
    for (void* address : frames_of(sites[i])) addresses.insert(address);
  const auto known = functions_at(addresses);
  for (std::size_t i = 0; i < site_count; ++i) {
    const RawSite& raw = sites[i];
    AllocationSite site{raw.thread, {}, raw.count, raw.largest};
    for (void* address : frames_of(raw)) {
      const auto found = known.find(address);
      if (found != known.end()) site.frames.insert(site.frames.end(), found->second.begin(), found->second.end());
    }
    all.push_back(std::move(site));
  }
  return all;
}

}  // namespace millrace::benchmarks

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  millrace::benchmarks::remember(bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t number, std::size_t bytes) {
  millrace::benchmarks::remember(number * bytes);
  return __libc_calloc(number, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  millrace::benchmarks::remember(bytes);
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  millrace::benchmarks::remember(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  millrace::benchmarks::remember(bytes);
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? 12 : 0;
}
}
