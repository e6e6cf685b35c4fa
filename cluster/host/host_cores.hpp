#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/host/host_files.hpp"
#include "cluster/topology.hpp"

namespace millrace::cluster {

/// Processor time that control groups allow, in cores: 1.5 means one and a half.
struct CoreQuota {
  double cores = 0;
  std::string source;  // "cpu.max of cgroup /sys/fs/cgroup/job"
};
/// The smallest quota of this process's group and all groups above it; nothing if there is no limit.
[[nodiscard]] std::optional<CoreQuota> core_quota(const HostFiles& files);

/// The number of cores on which threads of this process can compute at a time: the `available` ones of the affinity mask, limited
/// by the whole cores of the quota, at least 1.
[[nodiscard]] int usable_cores(int available, const HostFiles& files);
/// The same for the calling thread on this host.
[[nodiscard]] int usable_cores();
/// That number of cores, the first ones of the affinity mask.
[[nodiscard]] std::vector<int> cores_to_compute_on();

/// The threads that compute on one host, compared with its cores.
struct HostTeams {
  int cores = 1;
  int ranks = 1;    // on the host
  int threads = 1;  // per rank, train.threads
  /// The number of threads of each rank's team for which the host has cores. A rank's other threads share these.
  [[nodiscard]] int threads_at_once() const;
  /// The number of cores that compute when all ranks do.
  [[nodiscard]] int computing() const;
  /// "2 ranks x 64 threads = 128 compute threads on 2 cores: …"; empty if no core has more than one thread.
  /// `option`: with what the user gives the number of threads.
  [[nodiscard]] std::string crowded(std::string_view option = "train.threads =") const;
};
/// `cores`: usable cores. For a process that the launcher bound to its own cores, those of that process alone.
[[nodiscard]] HostTeams host_teams(const Topology& topology, const Launch& launch, int cores, int threads);

}  // namespace millrace::cluster
