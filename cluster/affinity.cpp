#include "cluster/affinity.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>

namespace millrace::cluster {

std::vector<int> available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

std::vector<int> widen_affinity() {
  if (std::getenv("OMPI_MCA_hwloc_base_binding_policy") == nullptr) {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
    sched_setaffinity(0, sizeof all, &all);  // the kernel cuts it to the control group's cores; when refused, the old mask stays
  }
  return available_cores();
}

int automatic_threads(const Topology& topology, const Launch& launch, int cores) {
  return std::max(1, cores / (topology.ranks_per_process() * launch.local_processes));
}

std::vector<std::vector<int>> worker_cores(const Topology& topology, const Launch& launch, const std::vector<int>& cores, int threads) {
  const std::size_t hosted = static_cast<std::size_t>(topology.ranks_per_process()), team = static_cast<std::size_t>(threads);
  std::vector<std::vector<int>> out(hosted);
  if (cores.size() < hosted * team * static_cast<std::size_t>(launch.local_processes)) return out;
  std::size_t next = static_cast<std::size_t>(launch.local_process) * hosted * team;
  for (auto& rank : out) {
    rank.assign(cores.begin() + static_cast<std::ptrdiff_t>(next), cores.begin() + static_cast<std::ptrdiff_t>(next + team));
    next += team;
  }
  return out;
}

}  // namespace millrace::cluster
