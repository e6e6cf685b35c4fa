#pragma once

#include "actors/jobs/run_beginning.hpp"
#include "actors/jobs/run_setup.hpp"
#include "actors/setup/run_settings.hpp"
#include "actors/telemetry/telemetry.hpp"

namespace millrace::actors {

/// Prints the first lines of a run: model, data, pipeline, machine, optimizer, what it begins with, run directory and status page. In
/// process 0.
void introduce(Telemetry& telemetry, const PipelinePlan& plan, const Session& session, const RankResources& needs,
               const runtime::Machine& machine, const RunBeginning& beginning, const DataSource& batches, const HeldOut& held_out,
               const RunSettings& job);

}  // namespace millrace::actors
