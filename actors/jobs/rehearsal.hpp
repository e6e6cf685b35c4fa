#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "actors/setup/session.hpp"
#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/simulator/cost.hpp"
#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::actors {

class Pipeline;

/// The schedule as this engine runs it: one kind of backward, and the halves of overlapped pairs one after the other.
[[nodiscard]] runtime::Schedule as_run(const runtime::Schedule& schedule);

/// What is rehearsed. Times in milliseconds.
struct RehearsalSettings {
  runtime::Schedule schedule;  // of as_run()
  runtime::Costs costs;        // durations, noise and the latency of links; what else they say is not rehearsed
  std::size_t bytes = 65536;   // of a token, rounded up to 1 KiB
  int steps = 5;               // measured; one more goes before them
  /// Called in every process when its ranks have stopped and before they go. May be empty.
  std::function<void(Pipeline& pipeline)> examine = {};
};

/// One rank in one step, milliseconds.
struct RehearsedRank {
  /// By cause, as the simulator has them. `launch` is what is neither work nor a wait for another rank: messages, issue, the end of a step.
  runtime::RankTime time;
  std::vector<double> begin, end;  // of the list's entries, since the rank was told to begin
};

struct RehearsedStep {
  double duration = 0;  // from the order to all ranks until the last of them has reported
  std::vector<RehearsedRank> ranks;
};

struct Rehearsal {
  std::vector<RehearsedStep> steps;
  /// The step in the middle by duration; of an even number the lower of both.
  [[nodiscard]] const RehearsedStep& median() const;
  /// The shortest: all steps are the same work, so this is the one that the rest of the machine disturbed least.
  [[nodiscard]] const RehearsedStep& fastest() const;
};

/// Collective: runs the schedule with everything that a training run has, coordinator, rank and stage actors, engines, compute workers,
/// links and control link, over a model too small to matter, with TimedRunner in the place of its programs. The result is in process 0.
/// Errors: Error(config) for a schedule that does not fit, Error(usage) for more actions than the ranks' traces keep.
[[nodiscard]] std::optional<Rehearsal> rehearse(Session& session, const RehearsalSettings& settings);

}  // namespace millrace::actors
