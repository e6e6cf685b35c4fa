#pragma once

#include <functional>
#include <optional>

#include "actors/coordinator.hpp"
#include "actors/setup/run_settings.hpp"
#include "actors/setup/session.hpp"
#include "runtime/profile/profile.hpp"

namespace millrace::actors {

/// What to profile: `steps` steps of the run from its initial state, after one warm-up step.
struct ProfileSettings {
  RunSettings run;  // directory, evaluation and sample are ignored
  int steps = 5;
  /// Called in process 0 at the end of each step, including the warm-up, on an actor's thread. May be empty.
  std::function<void(const StepRecord&)> stepped;
};

/// Collective: trains these steps as `millrace train` does, timing every operation, and collects the ranks' records. Writes
/// nothing. The result is in process 0; the caller adds the costs of pipeline.costs. Errors: those of a run; Error(usage) for
/// more steps than the ranks' traces can hold.
[[nodiscard]] std::optional<runtime::Measured> profile_training(Session& session, const ProfileSettings& settings);

/// Throws Error(usage) if a rank's ring cannot hold this number of steps of the schedule, including the warm-up.
void check_ring(const PipelinePlan& plan, int steps);

}  // namespace millrace::actors
