#pragma once

#include <cstdint>
#include <string>

#include "actors/debug/debug_cursor.hpp"
#include "actors/jobs/stepper.hpp"

namespace millrace::actors {

/// What the routers of the current action's stage chose for its microbatch: for each the tokens of every expert, entropy, the hottest
/// expert, and the experts of one token with their weights. A router that has not run yet, or whose weights are not in memory here, says
/// so. Throws Error(usage) if no action has run yet, for a stage without experts, and for a token that is not of the microbatch.
[[nodiscard]] std::string routing_text(const Stepper& stepper, const DebugCursor& standing, std::int64_t token);

}  // namespace millrace::actors
