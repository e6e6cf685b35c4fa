#include "actors/device_placement.hpp"

#include <algorithm>
#include <cstdlib>

#include "cluster/versions.hpp"
#include "kernels/base/check.hpp"
#include "kernels/peak.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::actors {
namespace {

constexpr const char* kPlacement = "actors.device_placement";

/// A user's folder for what can be found again, after the XDG base directory specification.
std::string cache_folder() {
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && *folder != '\0')
    return runtime::join_path(folder, "millrace");
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return runtime::join_path(runtime::join_path(home, ".cache"), "millrace");
  return "";
}

kernels::Queue::Options queue_options(const CudaConfig& config) {
  kernels::Queue::Options options;
  options.tf32 = config.tf32;
  options.graphs = config.graphs;
  options.choices = config.algorithms;
  if (config.algorithms != "auto") return options;
  const std::string folder = cache_folder();
  options.choices = folder.empty() ? "" : runtime::join_path(folder, "products.txt");
  if (!folder.empty()) runtime::make_directories(folder);
  return options;
}

}  // namespace

void place_on_devices(RankNeeds& needs, const Session& session, const JobConfig& config) {
  if (kernels::device_kind(config.device) == kernels::DeviceKind::cpu) return;
  const std::string why = kernels::why_no_cuda();
  MILLRACE_CHECK(why.empty(), ExitCode::config, kPlacement, "device = \"{}\", but on {} {}", config.device, cluster::host_name(), why);
  const auto there = static_cast<std::int64_t>(kernels::cuda_devices().size());
  MILLRACE_CHECK(config.cuda.device < there, ExitCode::config, kPlacement, "cuda.device = {}, but {} has {} GPUs, wanted 0 to {}, or -1",
                 config.cuda.device, cluster::host_name(), there, there - 1);
  const int ranks = session.topology().ranks_per_process();
  needs.devices.clear();
  for (int place = 0; place < ranks; ++place) {
    const std::int64_t of_host = static_cast<std::int64_t>(session.launch().local_process) * ranks + place;
    const auto index = config.cuda.device >= 0 ? config.cuda.device : of_host % there;
    needs.devices.push_back({kernels::DeviceKind::cuda, static_cast<int>(index)});
  }
  needs.ranks_per_process = ranks;
  kernels::connect_peers(needs.devices);
  needs.queue = queue_options(config.cuda);
  needs.mpi_reaches_devices = cluster::mpi_reaches_devices();
}

void plan_for_devices(RankNeeds& needs, const JobConfig& config) {
  if (kernels::device_kind(config.device) == kernels::DeviceKind::cpu) return;
  needs.devices = {{kernels::DeviceKind::cuda, 0}};
}

DevicePeak device_peak(const RankNeeds& needs, const Session& session, const JobConfig& config, kernels::DType dtype) {
  const auto devices = kernels::cuda_devices();
  const auto first = static_cast<std::size_t>(needs.devices.front().index);
  const double peak = first < devices.size() ? kernels::device_peak_flops(devices[first], dtype, config.cuda.tf32) : 0;
  const auto& launch = session.launch();
  const int hosts = (launch.processes + launch.local_processes - 1) / launch.local_processes;
  const int ranks = launch.local_processes * session.topology().ranks_per_process();
  const int used = config.cuda.device >= 0 ? 1 : std::min(ranks, static_cast<int>(devices.size()));
  return {peak, peak * hosts * used};
}

}  // namespace millrace::actors
