#pragma once

#include "actors/setup/pipeline_plan.hpp"
#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::actors {

/// The links between ranks, and of a rank to those that share its experts, in the unit of the costs.
struct PlannedLinks {
  double latency = 0;         // of a boundary and of an exchange
  double bytes_per_unit = 0;  // 0: no limit
};

/// What the boundaries of one copy of the plan take on its links; empty if they take nothing.
[[nodiscard]] std::vector<runtime::LinkCost> link_costs(const PipelinePlan& plan, const PlannedLinks& links);

/// The exchanges of one copy's stages, with the plan's layout and policies; empty if its ranks exchange nothing.
[[nodiscard]] std::vector<runtime::StageExchanges> exchange_costs(const PipelinePlan& plan, const PlannedLinks& links);

}  // namespace millrace::actors
