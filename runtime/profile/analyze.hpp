#pragma once

#include "runtime/profile/profile.hpp"

namespace millrace::runtime {

/// What was measured, with what follows from it: the steps by cause, the planned step beside them, what came late, and memory over time.
/// Errors: Error(config) for traces that do not hold the steps whole; Error(internal) for an attribution that does not add up to the step.
[[nodiscard]] Profile analyze(Measured measured);

}  // namespace millrace::runtime
