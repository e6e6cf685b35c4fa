#pragma once

#include <span>
#include <vector>

#include "runtime/profile/step_view.hpp"
#include "runtime/schedule/simulate.hpp"

namespace millrace::runtime {

/// What the stages took: for each stage and kind the mean over all its actions in the steps, milliseconds. Kinds that the schedule does not
/// have cost nothing; links are free.
[[nodiscard]] Costs mean_costs(const Schedule& schedule, std::span<const StepView> steps);

/// The same for stages that are all alike: each kind takes the mean over the stages. Kinds that no stage has cost nothing.
[[nodiscard]] Costs alike(const Costs& costs);

/// By rank: the time without an action from the step's begin to its last end.
[[nodiscard]] std::vector<double> idle_times(const Simulation& simulation);

/// Mean of idle_times.
[[nodiscard]] double mean_idle(const Simulation& simulation);

}  // namespace millrace::runtime
