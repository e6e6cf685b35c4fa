#pragma once

#include "actors/rank/rank.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "actors/setup/run_settings.hpp"
#include "actors/telemetry/profile_gather.hpp"
#include "cluster/topology.hpp"
#include "runtime/profile/profile.hpp"

namespace millrace::actors {

/// A training run and its ranks' records in the form of a profile, without the machine, the steps and their losses. Process 0.
[[nodiscard]] runtime::Measured measured_of(const RunSettings& settings, const PipelinePlan& plan, const RankResources& needs,
                                            const cluster::Topology& topology, GatheredRecords gathered);

}  // namespace millrace::actors
