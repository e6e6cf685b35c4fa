#pragma once

#include <functional>
#include <string>

#include "actors/setup/pipeline_plan.hpp"

namespace millrace::actors {

/// Replaces the schedules of a plan whose ranks exchange rows by those that pipeline.weave asks for, and counts their slots: "off": the
/// halves of overlapped pairs run in order, as they do where nothing is exchanged; "neighbours": they are woven, and further neighbouring
/// actions are paired (runtime/schedule/weave_pairs.hpp). The same in every process. Everything else of the plan must be there.
void choose_pairs(PipelinePlan& plan, const std::string& weave);

/// pipeline.weave = "auto": of the plans that `make` returns for "off" and for "neighbours", the one whose step is shorter according to the
/// simulator, with the costs of usual machines (runtime/engine/exchange_costs.hpp).
[[nodiscard]] PipelinePlan choose_weave(PlanRequest request, const std::function<PipelinePlan(const PlanRequest&)>& make);

}  // namespace millrace::actors
