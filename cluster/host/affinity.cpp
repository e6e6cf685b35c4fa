#include "cluster/host/affinity.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace millrace::cluster {
namespace {

constexpr const char* binding_policy_variable = "OMPI_MCA_hwloc_base_binding_policy";

}  // namespace

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

bool bound_by_launcher() {
  const char* policy = std::getenv(binding_policy_variable);
  return policy != nullptr && std::string_view(policy) != "none";
}

std::vector<int> widen_affinity() {
  if (std::getenv(binding_policy_variable) == nullptr) {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
    sched_setaffinity(0, sizeof all, &all);  // the kernel restricts it to the control group's cores; if it is refused, the old mask stays
  }
  return available_cores();
}

namespace {

/// The kernel's sched_attr as of Linux 3.14; its own header conflicts with <sched.h>.
struct SchedulerAttributes {
  std::uint32_t size = sizeof(SchedulerAttributes), policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;
};

}  // namespace

void run_soon_when_woken() noexcept {
  constexpr std::uint64_t shortest_slice = 100'000;  // ns, the minimum that the kernel allows
  SchedulerAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER) return;
  attributes.runtime = shortest_slice;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
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
