#pragma once

#include "runtime/profile/profile.hpp"

namespace millrace::runtime {

/// Analyses the measurements: the steps by cause, the predicted step beside them, what was late, and memory over time. Errors:
/// Error(config) for traces that do not contain whole steps; Error(internal) for an attribution that does not add up to the step.
[[nodiscard]] Profile analyze(Measured measured);

}  // namespace millrace::runtime
