#pragma once

#include <string>

#include "actors/rank/rank_blueprint.hpp"
#include "actors/setup/cuda_config.hpp"
#include "actors/setup/session.hpp"

namespace millrace::actors {

/// Assigns the ranks of this process to GPUs if `kind` is numbered: all to cuda.device if it is set, else a host's ranks to its
/// GPUs in turn. Also sets whether MPI can access GPU memory. `directory`: run.directory, where cuda.algorithms = "auto" keeps its file;
/// may be empty. The session must be connected. Errors: Error(config) for a GPU that does not exist.
void place_on_devices(RankResources& needs, const Session& session, kernels::DeviceKind kind, const CudaConfig& cuda,
                      const std::string& directory);

/// The same for a memory plan alone, on a machine that need not have a GPU.
void plan_for_devices(RankResources& needs, kernels::DeviceKind kind);

/// The peak of matrix products on GPUs by their data sheets, FLOP/s: the first rank's, and the sum over all that the job uses,
/// assumed to be equal. 0: unknown.
struct DevicePeak {
  double rank = 0, job = 0;
};
/// For ranks that are assigned to GPUs.
[[nodiscard]] DevicePeak device_peak(const RankResources& needs, const Session& session, const CudaConfig& cuda, kernels::DType dtype);

}  // namespace millrace::actors
