#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/host/host_files.hpp"
#include "cluster/topology.hpp"

namespace millrace::cluster {

/// Processor time that control groups allow, in cores: 1.5 is one and a half.
struct CoreQuota {
  double cores = 0;
  std::string source;  // "cpu.max of cgroup /sys/fs/cgroup/job"
};
/// The least of this process's group and of all above it; nothing where none limits it.
[[nodiscard]] std::optional<CoreQuota> core_quota(const HostFiles& files);

/// Cores that threads of this process can compute on at a time: `available` by the affinity mask, no more than the quota's whole ones, at
/// least 1.
[[nodiscard]] int usable_cores(int available, const HostFiles& files);
/// The same of the calling thread on this host.
[[nodiscard]] int usable_cores();
/// As many of the affinity mask's cores, the first ones.
[[nodiscard]] std::vector<int> cores_to_compute_on();

/// The threads that compute on one host, against its cores.
struct HostTeams {
  int cores = 1;
  int ranks = 1;    // on the host
  int threads = 1;  // of each rank, train.threads
  /// Threads that the cores of the host have room for in each rank's team. A rank's other threads take turns on these.
  [[nodiscard]] int threads_at_once() const;
  /// Cores that compute when all ranks do.
  [[nodiscard]] int computing() const;
  /// "2 ranks x 64 threads = 128 compute threads on 2 cores: …"; empty where a core has a thread at most.
  [[nodiscard]] std::string crowded() const;
};
/// `cores`: usable ones. Of a process that the launcher bound to cores of its own: of that process alone.
[[nodiscard]] HostTeams host_teams(const Topology& topology, const Launch& launch, int cores, int threads);

}  // namespace millrace::cluster
