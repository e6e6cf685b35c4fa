#pragma once

#include <string>
#include <vector>

#include "actors/jobs/rehearsal.hpp"
#include "runtime/schedule/simulator/lost_time.hpp"

namespace millrace::tools {

/// A rehearsed step compared with its prediction, in milliseconds.
struct RehearsalComparison {
  double measured = 0, predicted = 0;
  double measured_bubble = 0, predicted_bubble = 0;  // fraction of all ranks' time in the step, 0 … 1
  runtime::LostTime lost;                            // of the prediction
  /// The prediction with the measured durations of the actions: a timer ends late if its thread is not scheduled in time. Time
  /// beyond this prediction is the overhead of the runtime.
  double as_timed = 0, bubble_as_timed = 0;

  /// The delay that an action added to those that it inherited from earlier actions.
  struct Delay {
    runtime::RankId rank;
    runtime::Action action;
    double began =
        0;  // begin − the time at which the previous action had ended and the input was due: messages, and a worker that woke late
    double lasted = 0;  // duration − predicted duration
    [[nodiscard]] double added() const { return began + lasted; }
  };
  std::vector<Delay> delays;  // the largest ones, in descending order
  [[nodiscard]] double ratio() const { return measured / predicted; }
  [[nodiscard]] double ratio_as_timed() const { return measured / as_timed; }
};

[[nodiscard]] RehearsalComparison compare(const runtime::Schedule& schedule, const runtime::Costs& costs,
                                          const runtime::Simulation& simulation, const actors::RehearsedStep& step);

[[nodiscard]] std::string print(const RehearsalComparison& comparison, const runtime::Simulation& simulation,
                                const actors::RehearsedStep& step);

/// One JSON object with a newline at the end:
///
///     schedule, ranks, chunks, microbatches, hash, steps (all measured ones), actions (by rank, of `step`, like all measurements
///     below)
///     measured, predicted, ratio, measured_bubble, predicted_bubble
///     as_timed, ratio_as_timed, bubble_as_timed: the prediction with the measured durations of the actions
///     measured_times, predicted_times: busy time and waits of each rank
///     lost_time: of the prediction, plus the time added by late timers and by the runtime
///     delays: the largest ones
[[nodiscard]] std::string to_json(const RehearsalComparison& comparison, const runtime::Schedule& schedule,
                                  const runtime::Simulation& simulation, const actors::Rehearsal& rehearsal,
                                  const actors::RehearsedStep& step);

}  // namespace millrace::tools
