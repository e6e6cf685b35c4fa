#include "cluster/host/host_cores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cluster/host/affinity.hpp"
#include "kernels/base/count.hpp"

namespace millrace::cluster {
namespace {

std::optional<double> quota_of(const HostFiles& files, const std::string& folder, int version) {
  double time = 0, period = 0;  // microseconds of processor time per period
  if (version == 2) {
    std::istringstream words(files.text(folder + "/cpu.max").value_or(""));  // "150000 100000", "max 100000"
    if (!(words >> time >> period)) return std::nullopt;
  } else {
    // −1 means no limit.
    time = static_cast<double>(files.number(folder + "/cpu.cfs_quota_us").value_or(0));
    period = static_cast<double>(files.number(folder + "/cpu.cfs_period_us").value_or(0));
  }
  if (time <= 0 || period <= 0) return std::nullopt;
  return time / period;
}

}  // namespace

std::optional<CoreQuota> core_quota(const HostFiles& files) {
  std::optional<CoreQuota> least;
  for (const auto& [version, folders] : files.groups("cpu")) {
    for (const auto& folder : folders) {
      const auto cores = quota_of(files, folder, version);
      if (!cores || (least && least->cores <= *cores)) continue;
      least = CoreQuota{*cores, fmt::format("{} of cgroup {}", version == 2 ? "cpu.max" : "cpu.cfs_quota_us", folder)};
    }
  }
  return least;
}

int usable_cores(int available, const HostFiles& files) {
  const auto quota = core_quota(files);
  if (!quota || quota->cores >= available) return std::max(1, available);
  return std::max(1, static_cast<int>(quota->cores));
}

int usable_cores() { return usable_cores(static_cast<int>(available_cores().size()), HostFiles::of_this_host()); }

std::vector<int> cores_to_compute_on() {
  auto cores = available_cores();
  cores.resize(std::min(cores.size(), static_cast<std::size_t>(usable_cores())));
  return cores;
}

int HostTeams::threads_at_once() const { return std::min(threads, std::max(1, cores / ranks)); }

int HostTeams::computing() const { return std::min(cores, ranks * threads_at_once()); }

std::string HostTeams::crowded(std::string_view option) const {
  if (ranks * threads <= cores) return "";
  auto text =
      fmt::format("{} x {} are more than the {} of this host", counted(ranks, "rank"), counted(threads, "thread"), counted(cores, "core"));
  if (threads == 1) return text + ": ranks take turns on the cores";
  return text + fmt::format(": a rank computes with {} at a time and gains nothing by more; {} {} fits{}",
                            counted(threads_at_once(), "thread"), option, std::max(1, cores / ranks),
                            ranks > cores ? ", and even then ranks take turns" : "");
}

HostTeams host_teams(const Topology& topology, const Launch& launch, int cores, int threads) {
  return {std::max(1, cores), topology.ranks_per_process() * (bound_by_launcher() ? 1 : std::max(1, launch.local_processes)),
          std::max(1, threads)};
}

}  // namespace millrace::cluster
