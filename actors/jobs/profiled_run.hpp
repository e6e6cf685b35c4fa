#pragma once

#include <functional>
#include <optional>

#include "actors/coordinator.hpp"
#include "actors/setup/run_settings.hpp"
#include "actors/setup/session.hpp"
#include "runtime/profile/profile.hpp"

namespace millrace::actors {

/// What is profiled: `steps` steps of the run from its initial state, after one that warms up.
struct ProfileSettings {
  RunSettings run;  // directory, evaluation and sample are passed over
  int steps = 5;
  /// In process 0, as each step ends, the first included; on an actor's thread. May be empty.
  std::function<void(const StepRecord&)> stepped;
};

/// Collective: trains that many steps as `millrace train` does, with a clock around every operation, and gathers the ranks' records. Writes
/// nothing. The result is in process 0; the costs of pipeline.costs are left to the caller. Errors: those of a run; Error(usage) for more
/// steps than the ranks' traces keep.
[[nodiscard]] std::optional<runtime::Measured> profile_training(Session& session, const ProfileSettings& settings);

/// Throws Error(usage) where a rank's ring does not keep so many steps of this schedule, the first included.
void check_ring(const runtime::Schedule& schedule, int steps);

}  // namespace millrace::actors
