#pragma once

#include <span>

#include "runtime/profile/step_view.hpp"
#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::runtime {

/// Which ranks exchange rows inside of their actions, and between which segments; empty if none does.
struct Exchanging {
  std::vector<StageShape> shapes;            // by stage
  std::vector<std::vector<RankId>> members;  // by rank: those that exchange rows with it, itself included
};

/// The measured costs of the stages: for each stage and kind, the mean over all its actions in the steps, in milliseconds, without waits
/// for exchanges. Kinds that the schedule does not use cost nothing; links are free. An exchange takes the shortest time that was between
/// the post of its last member and the segment that awaits it.
[[nodiscard]] Costs mean_costs(const Schedule& schedule, std::span<const StepView> steps, const Exchanging& exchanging = {});

}  // namespace millrace::runtime
