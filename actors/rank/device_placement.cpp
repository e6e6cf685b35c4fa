#include "actors/rank/device_placement.hpp"

#include <algorithm>

#include "cluster/host/versions.hpp"
#include "kernels/base/check.hpp"
#include "kernels/peak.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::actors {
namespace {

constexpr const char* placement_component = "actors.device_placement";

kernels::DeviceOptions device_options(const CudaConfig& cuda, const std::string& directory) {
  kernels::DeviceOptions options;
  options.tf32 = cuda.tf32;
  options.graphs = cuda.graphs;
  options.choices = cuda.algorithms;
  if (cuda.algorithms != "auto") return options;
  // Beside the run's checkpoints, so that a resumed run makes the same choices.
  if (!directory.empty()) runtime::make_directories(directory);
  options.choices = directory.empty() ? "" : runtime::join_path(directory, "products.txt");
  return options;
}

}  // namespace

void place_on_devices(RankResources& needs, const Session& session, kernels::DeviceKind kind, const CudaConfig& cuda,
                      const std::string& directory) {
  const auto& type = kernels::device_type(kind);
  if (!type.facts().numbered) return;
  const std::string why = type.why_unavailable();
  MILLRACE_CHECK(why.empty(), ExitCode::config, placement_component, "device = \"{}\", but on {} {}",
                 kernels::to_string(type.facts().backend), cluster::host_name(), why);
  const auto there = static_cast<std::int64_t>(type.devices().size());
  MILLRACE_CHECK(cuda.device < there, ExitCode::config, placement_component, "cuda.device = {}, but {} has {} {}s, expected 0 to {}, or -1",
                 cuda.device, cluster::host_name(), there, type.facts().noun, there - 1);
  const int ranks = session.topology().ranks_per_process();
  needs.devices.clear();
  for (int place = 0; place < ranks; ++place) {
    const std::int64_t of_host = static_cast<std::int64_t>(session.launch().local_process) * ranks + place;
    const auto index = cuda.device >= 0 ? cuda.device : of_host % there;
    needs.devices.push_back({kind, static_cast<int>(index)});
  }
  needs.ranks_per_process = ranks;
  type.connect_peers(needs.devices);
  needs.device_options = device_options(cuda, directory);
  needs.mpi_reaches_devices = cluster::mpi_reaches_devices();
  // MPI uses the calling thread's current device.
  if (needs.mpi_reaches_devices && session.transport() != nullptr)
    session.transport()->run([&type, device = needs.devices.front()] { type.select(device); });
}

void plan_for_devices(RankResources& needs, kernels::DeviceKind kind) {
  if (kernels::device_type(kind).facts().numbered) needs.devices = {{kind, 0}};
}

DevicePeak device_peak(const RankResources& needs, const Session& session, const CudaConfig& cuda, kernels::DType dtype) {
  const auto devices = kernels::device_type(needs.devices.front()).devices();
  const auto first = static_cast<std::size_t>(needs.devices.front().index);
  const double peak = first < devices.size() ? kernels::device_peak_flops(devices[first], dtype, cuda.tf32) : 0;
  const auto& launch = session.launch();
  const int hosts = (launch.processes + launch.local_processes - 1) / launch.local_processes;
  const int ranks = launch.local_processes * session.topology().ranks_per_process();
  const int used = cuda.device >= 0 ? 1 : std::min(ranks, static_cast<int>(devices.size()));
  return {peak, peak * hosts * used};
}

}  // namespace millrace::actors
