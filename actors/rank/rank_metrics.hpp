#pragma once

#include <cstdint>
#include <vector>

#include "actors/messages/messages.hpp"

namespace millrace::actors {

/// Bytes that a rank has sent since its last report: in the exchanges of the step, and to ranks that hold the same weights.
struct SentBytes {
  std::int64_t exchanges = 0, replicas = 0;
};

/// Writes this rank's values of all step_metrics, in their order, to `values`. Called when the rank's list of a step is done.
void measure_step(const StepTimes& times, const SentBytes& sent, std::vector<double>& values);

}  // namespace millrace::actors
