#pragma once

#include <string>

#include "actors/rank/rank.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "actors/telemetry/profile_gather.hpp"
#include "cluster/topology.hpp"
#include "runtime/profile/profile.hpp"

namespace millrace::actors {

/// A training run and its ranks' records in the form of a profile, without the machine, the steps and their losses. `build` identifies
/// the binary. Process 0.
[[nodiscard]] runtime::Measured measured_of(const PipelinePlan& plan, const RankResources& needs, const cluster::Topology& topology,
                                            const std::string& build, GatheredRecords gathered);

/// The segments of the plan's actions, their exchanges, and the ranks that share experts; empty if none do.
[[nodiscard]] runtime::Exchanging exchanging_of(const PipelinePlan& plan);

}  // namespace millrace::actors
