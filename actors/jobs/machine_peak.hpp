#pragma once

#include "actors/rank/rank_blueprint.hpp"
#include "actors/setup/cuda_config.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "actors/setup/session.hpp"
#include "cluster/host/host_cores.hpp"
#include "runtime/profile/profile.hpp"

namespace millrace::actors {

/// Divides a host's peak FLOP/s. A rank gets the fraction that its threads are of the host's threads that compute at a time; the
/// job's total assumes that all hosts are equal. `teams` describes this host, `ranks` is the number of ranks of the job.
[[nodiscard]] runtime::Machine shares_of_peak(double host_peak, const cluster::HostTeams& teams, int ranks);

/// The peak FLOP/s of the run's hardware: for GPUs the value in the data sheet; for CPUs measured on this host with the threads of
/// all its ranks at once, in the dtype of the run's matrix products. The memory bandwidth is left unset. During the measurement the
/// host's other ranks should be idle.
[[nodiscard]] runtime::Machine machine_peak(const Session& session, const CudaConfig& cuda, const PipelinePlan& plan,
                                            const RankResources& needs);

/// The same in process 0, and nothing in the others, which sleep meanwhile: ranks that are being prepared would take part of the cores,
/// and every fraction of the peak would be too large. `doubt` says if other programs did. Collective.
[[nodiscard]] runtime::Machine undisturbed_peak(const Session& session, const CudaConfig& cuda, const PipelinePlan& plan,
                                                const RankResources& needs);

}  // namespace millrace::actors
