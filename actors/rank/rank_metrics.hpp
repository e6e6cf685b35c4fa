#pragma once

#include <cstdint>
#include <vector>

#include "actors/messages/messages.hpp"

namespace millrace::actors {

/// Writes this rank's values of all step_metrics, in their order, to `values`. Called when the rank's list of a step is done.
/// `exchange_bytes`: sent in exchanges of the step.
void measure_step(const StepTimes& times, std::int64_t exchange_bytes, std::vector<double>& values);

}  // namespace millrace::actors
