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

/// Functions at an address, inlined ones first.
std::vector<std::string> functions_at(void* address) {
  Dl_info info{};
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) return {"?"};
  std::string file = info.dli_fname;
  if (map == nullptr || map->l_name == nullptr || *map->l_name == '\0') file = "/proc/self/exe";
  if (file != "/proc/self/exe") {  // a library: its dynamic symbols are enough
    return {fmt::format("{} [{}]", info.dli_sname != nullptr ? demangled(info.dli_sname) : "?", file.substr(file.rfind('/') + 1))};
  }
  std::array<char, 4096> path{};
  if (realpath("/proc/self/exe", path.data()) == nullptr) return {"?"};
  const auto offset = reinterpret_cast<std::uintptr_t>(address) - (map != nullptr ? map->l_addr : 0) - 1;  // the call, not what follows it
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(fmt::format("addr2line -Cfie '{}' {:#x}", path.data(), offset).c_str(), "r"),
                                                   pclose);
  std::vector<std::string> functions;
  std::array<char, 8192> line{};
  while (pipe && std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    std::string function = line.data();
    function.erase(function.find_last_not_of('\n') + 1);
    std::string place = std::fgets(line.data(), line.size(), pipe.get()) != nullptr ? line.data() : "";
    place.erase(place.find_last_not_of('\n') + 1);
    functions.push_back(fmt::format("{} [{}]", function, place.substr(place.rfind('/') + 1)));
  }
  if (functions.empty()) functions.emplace_back("?");
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
  std::map<void*, std::vector<std::string>> known;
  for (std::size_t i = 0; i < site_count; ++i) {
    const RawSite& raw = sites[i];
    AllocationSite site{raw.thread, {}, raw.count, raw.largest};
    for (int frame = 2; frame < raw.depth; ++frame) {  // remember() and malloc itself are not news
      void* address = raw.stack[static_cast<std::size_t>(frame)];
      auto found = known.find(address);
      if (found == known.end()) found = known.emplace(address, functions_at(address)).first;
      site.frames.insert(site.frames.end(), found->second.begin(), found->second.end());
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
