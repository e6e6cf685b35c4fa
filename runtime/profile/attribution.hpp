#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/profile/prediction.hpp"
#include "runtime/profile/step_view.hpp"

namespace millrace::runtime {

/// The causes to which a rank's time in a step is attributed.
///
///     forward, input_gradient, weight_gradient, backward   the actions F, I, W and B
///     optimizer    gradient sums, their squares, the optimizer
///     bubble       waits for a boundary that was not produced yet, and the wait from the rank's own last action to that of the last rank,
///                  up to the idle time that the same schedule would have if all stages took the mean time: inherent in the schedule
///     imbalance    the rest of those waits, caused by unequal stages and by whatever made one of them late
///     transfer     waits for a boundary that was produced but has not arrived yet
///     data         waits for the loader
///     checkpoint   copies of parameters and optimizer states for a snapshot
///     transport    waits for a free slot of the output ring
///     exchange     waits inside of an action for rows of the ranks that share its experts: what no compute has hidden
///     reduction    waits for gradient sums and updated parameters of the ranks that hold the same weights
///     other        everything that no record covers: messages, issue, the coordinator's turn between gradients and update
enum class Cause : std::uint8_t {
  forward,
  input_gradient,
  weight_gradient,
  backward,
  optimizer,
  bubble,
  imbalance,
  transfer,
  data,
  checkpoint,
  transport,
  exchange,
  reduction,
  other
};
inline constexpr std::size_t cause_count = 14;
[[nodiscard]] const char* to_string(Cause cause);

/// One rank in one step, in nanoseconds. The parts add up to `wall`, which is the step's time and the same for all ranks.
struct Attribution {
  std::array<std::int64_t, cause_count> parts{};
  std::int64_t wall = 0;
  /// Recorded time outside the step or overlapping another record, which is not counted. 0 in a sound trace.
  std::int64_t beyond = 0;
  [[nodiscard]] std::int64_t& operator[](Cause cause) { return parts[static_cast<std::size_t>(cause)]; }
  [[nodiscard]] std::int64_t operator[](Cause cause) const { return parts[static_cast<std::size_t>(cause)]; }
  /// Waits for other ranks: bubble, imbalance, transfer, transport, exchange and reduction.
  [[nodiscard]] std::int64_t idle() const;
};

/// Attributes every nanosecond of the step to exactly one cause on every rank; the result is indexed by rank.
[[nodiscard]] std::vector<Attribution> attribute(const Schedule& schedule, const StepView& view, const Exchanging& exchanging = {});

/// Describes what is wrong with an attribution; empty if no part is negative and the parts and the uncounted time add up to the
/// wall time within 0.5 %.
[[nodiscard]] std::string problem_of(const Attribution& attribution);

}  // namespace millrace::runtime
