#pragma once

#include <span>

#include "runtime/profile/step_view.hpp"
#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::runtime {

/// The measured costs of the stages: for each stage and kind, the mean over all its actions in the steps, in milliseconds. Kinds
/// that the schedule does not use cost nothing; links are free.
[[nodiscard]] Costs mean_costs(const Schedule& schedule, std::span<const StepView> steps);

}  // namespace millrace::runtime
