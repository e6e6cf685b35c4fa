#pragma once

#include <string>

#include "actors/jobs/run_beginning.hpp"
#include "actors/jobs/run_setup.hpp"
#include "actors/telemetry/telemetry.hpp"

namespace millrace::actors {

/// Prints the first lines of a run: model, data, pipeline, machine, run directory (may be empty: none) and status page. In process 0.
void introduce(Telemetry& telemetry, const PipelinePlan& plan, const Session& session, const RankResources& needs,
               const runtime::Machine& machine, const RunBeginning& beginning, const DatasetBatches& batches, const HeldOut& held_out,
               const std::string& directory);

}  // namespace millrace::actors
