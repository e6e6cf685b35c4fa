#pragma once

#include <string>
#include <vector>

#include "actors/jobs/rehearsal.hpp"
#include "runtime/schedule/simulator/lost_time.hpp"

namespace millrace::tools {

/// A rehearsed step laid over its prediction, milliseconds.
struct RehearsalComparison {
  double measured = 0, predicted = 0;
  double measured_bubble = 0, predicted_bubble = 0;  // of the step's time on all ranks, 0 … 1
  runtime::LostTime lost;                            // of the prediction
  /// The prediction with the actions as long as the machine let them be: a timer whose processor is away ends late. What is measured beyond
  /// it is the runtime's own.
  double as_timed = 0, bubble_as_timed = 0;

  /// What an action lost that no other action had lost before it.
  struct Delay {
    runtime::RankId rank;
    runtime::Action action;
    double began = 0;   // after the action before it in the list had ended and its token was due: messages and a late worker
    double lasted = 0;  // beyond its predicted duration
    [[nodiscard]] double added() const { return began + lasted; }
  };
  std::vector<Delay> delays;  // the greatest, most first
  [[nodiscard]] double ratio() const { return measured / predicted; }
  [[nodiscard]] double ratio_as_timed() const { return measured / as_timed; }
};

[[nodiscard]] RehearsalComparison compare(const runtime::Schedule& schedule, const runtime::Costs& costs,
                                          const runtime::Simulation& simulation, const actors::RehearsedStep& step);

[[nodiscard]] std::string print(const RehearsalComparison& comparison, const runtime::Simulation& simulation,
                                const actors::RehearsedStep& step);

/// One JSON object with a newline at the end:
///
///     schedule, ranks, chunks, microbatches, hash, steps (each measured one), actions (by rank, of `step`, as all that is measured)
///     measured, predicted, ratio, measured_bubble, predicted_bubble
///     as_timed, ratio_as_timed, bubble_as_timed: the prediction with the actions as long as they came
///     measured_times, predicted_times: busy time and waits of each rank
///     lost_time: of the prediction, and what late timers and the runtime add
///     delays: the greatest
[[nodiscard]] std::string to_json(const RehearsalComparison& comparison, const runtime::Schedule& schedule,
                                  const runtime::Simulation& simulation, const actors::Rehearsal& rehearsal,
                                  const actors::RehearsedStep& step);

}  // namespace millrace::tools
