#pragma once

#include "actors/rank/rank_blueprint.hpp"
#include "actors/setup/job_config.hpp"
#include "actors/setup/session.hpp"

namespace millrace::actors {

/// Gives the ranks of this process their GPUs, where the description asks for GPUs: of cuda.device all, else a host's ranks take its GPUs
/// in turn. Sets what MPI can reach too. The session is connected. Errors: Error(config) for a GPU that is not there.
void place_on_devices(RankResources& needs, const Session& session, const JobConfig& config);

/// The same for a memory plan alone, on a machine that need not have a GPU.
void plan_for_devices(RankResources& needs, const JobConfig& config);

/// What GPUs multiply at best by their data sheets, FLOP/s: the first rank's, and all that the job uses, as if they were alike. 0: unknown.
struct DevicePeak {
  double rank = 0, job = 0;
};
/// Of ranks that are placed on GPUs.
[[nodiscard]] DevicePeak device_peak(const RankResources& needs, const Session& session, const JobConfig& config, kernels::DType dtype);

}  // namespace millrace::actors
