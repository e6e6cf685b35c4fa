#pragma once

#include <span>

#include "runtime/profile/step_view.hpp"
#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::runtime {

/// What the stages took: for each stage and kind the mean over all its actions in the steps, milliseconds. Kinds that the schedule does not
/// have cost nothing; links are free.
[[nodiscard]] Costs mean_costs(const Schedule& schedule, std::span<const StepView> steps);

}  // namespace millrace::runtime
