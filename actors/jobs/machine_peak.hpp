#pragma once

#include "actors/rank/rank_blueprint.hpp"
#include "actors/setup/cuda_config.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "actors/setup/session.hpp"
#include "cluster/host/host_cores.hpp"
#include "runtime/profile/profile.hpp"

namespace millrace::actors {

/// Shares of a host's peak: a rank's share, by its threads among those that compute at a time, and the job's total, where hosts
/// are assumed to be equal. `teams`: of this host; `ranks`: of the job.
[[nodiscard]] runtime::Machine shares_of_peak(double host_peak, const cluster::HostTeams& teams, int ranks);

/// The peak of the run's hardware, measured on this host's cores with the threads of all its ranks at once, in the dtype of the
/// run's matrix products; for GPUs the data sheet's. Does not include memory bandwidth. While it runs, the host's other ranks
/// should be idle.
[[nodiscard]] runtime::Machine machine_peak(const Session& session, const CudaConfig& cuda, const PipelinePlan& plan,
                                            const RankResources& needs);

}  // namespace millrace::actors
