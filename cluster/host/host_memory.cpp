#include "cluster/host/host_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

namespace millrace::cluster {
namespace {

constexpr const char* meminfo_path = "/proc/meminfo";

std::uint64_t rest(std::uint64_t limit, std::uint64_t used) { return limit - std::min(limit, used); }

std::optional<std::uint64_t> kibibytes(const HostFiles& files, const std::string& path, const std::string& name) {
  const auto value = files.field(path, name);
  return value ? std::optional(*value << 10U) : std::nullopt;
}

/// Page cache of files and the kernel's caches of their metadata, which are reclaimed when memory is needed. Shared memory is not
/// included.
std::uint64_t reclaimable(const HostFiles& files, const std::string& folder, int version) {
  static const std::vector<std::string> names[] = {{"total_active_file", "total_inactive_file"},
                                                   {"active_file", "inactive_file", "slab_reclaimable"}};
  std::uint64_t sum = 0;
  for (const auto& name : names[version - 1]) sum += files.field(folder + "/memory.stat", name).value_or(0);
  return sum;
}

void add_group_bounds(const HostFiles& files, std::vector<MemoryBound>& bounds) {
  for (const auto& [version, folders] : files.groups("memory")) {
    const bool old = version == 1;
    // Above memory.high the kernel throttles a group until it hardly proceeds, so it is treated as a limit.
    const std::vector<std::string> limits =
        old ? std::vector<std::string>{"memory.limit_in_bytes"} : std::vector<std::string>{"memory.max", "memory.high"};
    for (const auto& folder : folders) {
      const auto used = files.number(folder + (old ? "/memory.usage_in_bytes" : "/memory.current")).value_or(0);
      for (const auto& name : limits) {
        const auto limit = files.number(folder + "/" + name);
        if (!limit || *limit >= std::uint64_t{1} << 62U) continue;  // version 1 expresses no limit as the largest number of pages
        bounds.push_back({MemoryScope::group, rest(*limit, rest(used, reclaimable(files, folder, version))),
                          fmt::format("{} = {} of cgroup {}", name, *limit, folder)});
      }
      // Without it the groups above do not count this group's memory.
      if (old && files.number(folder + "/memory.use_hierarchy") == std::uint64_t{0}) break;
    }
  }
}

/// "Max address space         1073741824           unlimited            bytes": the first number is the effective limit.
std::optional<std::uint64_t> process_limit(const HostFiles& files, const std::string& name) {
  const auto text = files.text("/proc/self/limits").value_or("");
  const auto place = text.find(name);
  if (place == std::string::npos) return std::nullopt;
  const auto begin = text.find_first_not_of(' ', place + name.size());
  if (begin == std::string::npos || text[begin] < '0' || text[begin] > '9') return std::nullopt;
  return std::stoull(text.substr(begin));
}

void add_process_bounds(const HostFiles& files, std::vector<MemoryBound>& bounds) {
  struct Limit {
    const char *name, *used, *source;
  };
  for (const auto& [name, used, source] :
       {Limit{"Max address space", "VmSize:", "RLIMIT_AS"}, {"Max data size", "VmData:", "RLIMIT_DATA"}}) {
    if (const auto limit = process_limit(files, name))
      bounds.push_back({MemoryScope::process, rest(*limit, kibibytes(files, "/proc/self/status", used).value_or(0)),
                        fmt::format("{} = {} of each process", source, *limit)});
  }
}

}  // namespace

std::vector<MemoryBound> memory_bounds(const HostFiles& files) {
  std::vector<MemoryBound> bounds;
  if (const auto available = kibibytes(files, meminfo_path, "MemAvailable:"))
    bounds.push_back({MemoryScope::host, *available, fmt::format("MemAvailable of {}", meminfo_path)});
  add_group_bounds(files, bounds);
  add_process_bounds(files, bounds);
  std::ranges::stable_sort(bounds, {}, &MemoryBound::free);
  return bounds;
}

MemoryDomain memory_domain(const HostFiles& files) {
  MemoryDomain domain;
  // Containers of one machine have different names, and cloned machines share one.
  domain.host = std::hash<std::string>{}(files.text("/proc/sys/kernel/random/boot_id").value_or(""));
  for (const auto& [version, folders] : files.groups("memory")) {
    const auto seen = std::ranges::find_if(folders, [&](const auto& folder) { return files.identity(folder) != 0; });
    if (seen != folders.end()) domain.group = domain.group * 31 + files.identity(*seen);
  }
  return domain;
}

}  // namespace millrace::cluster
