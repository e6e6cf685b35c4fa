#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/host/host_files.hpp"

namespace millrace::cluster {

/// Who takes from a bound's bytes together.
enum class MemoryScope : std::uint8_t { host, group, process };

/// One reason why memory may run out, as of now.
struct MemoryBound {
  MemoryScope scope = MemoryScope::host;
  std::uint64_t free = 0;  // bytes that can still be had
  std::string source;      // "MemAvailable of /proc/meminfo", "memory.max = 8589934592 of cgroup /sys/fs/cgroup/job"
};

/// What bounds this process's memory: MemAvailable; the limits of its control group and of every group above it, less what is in use there
/// and cannot be reclaimed (page cache can); the process's own limits (ulimit -v and -d). Swap does not count. The tightest first; empty
/// where nothing can be read.
[[nodiscard]] std::vector<MemoryBound> memory_bounds(const HostFiles& files);

/// Whose memory it is: two processes with the same `host` share the machine's memory, with the same `group` (0: none) the limits of one
/// innermost control group.
struct MemoryDomain {
  std::uint64_t host = 0, group = 0;
};
[[nodiscard]] MemoryDomain memory_domain(const HostFiles& files);

}  // namespace millrace::cluster
