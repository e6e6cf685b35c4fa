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

/// The schedule as this engine runs it where nothing is exchanged: one kind of backward, and the halves of overlapped pairs in sequence.
[[nodiscard]] runtime::Schedule as_run(const runtime::Schedule& schedule);

/// What to rehearse. Times are in milliseconds.
struct RehearsalSettings {
  runtime::Schedule schedule;  // of one copy of the pipeline: after as_run() or, with exchanges, as planned
  runtime::Costs costs;        // durations, noise, links and exchanges are used; other costs are ignored
  int members = 1;             // copies whose ranks exchange rows, if the costs have exchanges; all of them run
  std::size_t bytes = 65536;   // of a boundary, rounded up to 1 KiB
  int steps = 5;               // measured steps, after one warm-up step
  /// Called in every process after its ranks have stopped and before they are destroyed. May be empty.
  std::function<void(Pipeline& pipeline)> examine = {};
};

/// One rank in one step, milliseconds.
struct RehearsedRank {
  /// By cause, as in the simulator. `launch` is everything that is neither work nor a wait for another rank: messages, issue, the
  /// end of a step.
  runtime::RankTime time;
  std::vector<double> begin, end;  // of the list's actions, relative to the order to begin
  std::vector<double> busy;        // without the waits for exchanges
};

struct RehearsedStep {
  double duration = 0;               // from the order to all ranks until the last of them has reported
  std::vector<RehearsedRank> ranks;  // of the first copy
};

struct Rehearsal {
  std::vector<RehearsedStep> steps;
  /// The step of median duration; the shorter of the two middle ones for an even number.
  [[nodiscard]] const RehearsedStep& median() const;
  /// The shortest step: all steps do the same work, so this one was disturbed least.
  [[nodiscard]] const RehearsedStep& fastest() const;
};

/// Collective: runs the schedule with all components of a training run (coordinator, rank and stage actors, engines, compute
/// workers, links and control link), over a model of negligible size, with TimedRunner in place of its programs. The result is in
/// process 0. Errors: Error(config) for a schedule that does not fit, Error(usage) for more actions than the ranks' traces can
/// hold.
[[nodiscard]] std::optional<Rehearsal> rehearse(Session& session, const RehearsalSettings& settings);

}  // namespace millrace::actors
