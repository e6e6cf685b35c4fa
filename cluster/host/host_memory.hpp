#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/host/host_files.hpp"

namespace millrace::cluster {

/// Which processes share the limit's bytes.
enum class MemoryScope : std::uint8_t { host, group, process };

/// A limit of memory, with its current state.
struct MemoryBound {
  MemoryScope scope = MemoryScope::host;
  std::uint64_t free = 0;  // bytes that are still available
  std::string source;      // "MemAvailable of /proc/meminfo", "memory.max = 8589934592 of cgroup /sys/fs/cgroup/job"
};

/// The limits of this process's memory: MemAvailable; the limits of its control group and of every group above it, minus what is
/// in use there and cannot be reclaimed (page cache can); the process's own limits (ulimit -v and -d). Swap does not count. The
/// tightest first; empty if nothing can be read.
[[nodiscard]] std::vector<MemoryBound> memory_bounds(const HostFiles& files);

/// Identifies who shares memory: two processes with the same `host` share the machine's memory, with the same `group` (0: none)
/// the limits of one innermost control group.
struct MemoryDomain {
  std::uint64_t host = 0, group = 0;
};
[[nodiscard]] MemoryDomain memory_domain(const HostFiles& files);

}  // namespace millrace::cluster
