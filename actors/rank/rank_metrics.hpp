#pragma once

#include <vector>

#include "actors/messages/messages.hpp"

namespace millrace::actors {

/// Writes this rank's values of all step_metrics, in their order, to `values`. Called when the rank's list of a step is done.
void measure_step(const StepTimes& times, std::vector<double>& values);

}  // namespace millrace::actors
