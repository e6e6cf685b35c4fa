#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/profile/step_view.hpp"

namespace millrace::runtime {

/// Where a rank's time of a step went.
///
///     forward, input_gradient, weight_gradient, backward   the actions F, I, W and B
///     optimizer    gradient sums, their squares, AdamW
///     bubble       of the waits for tokens that were not made yet, and of the wait from the own last action to that of the last rank,
///                  what the same schedule would stand idle if all stages took the mean time: the schedule's own
///     imbalance    the rest of those waits: stages that are not alike, and whatever made one of them late
///     transfer     waits for a token that was made and not here yet
///     data         waits for the loader
///     checkpoint   copies of parameters and moments for a snapshot
///     transport    waits for a free slot of the output ring
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
  other
};
inline constexpr std::size_t kCauses = 12;
[[nodiscard]] const char* to_string(Cause cause);

/// One rank in one step, nanoseconds. The parts add up to `wall`, which is the step's time and the same for all ranks.
struct Attribution {
  std::array<std::int64_t, kCauses> parts{};
  std::int64_t wall = 0;
  /// What records claimed beyond the step or beside another record, and was not counted. 0 in a sound trace.
  std::int64_t beyond = 0;
  [[nodiscard]] std::int64_t& operator[](Cause cause) { return parts[static_cast<std::size_t>(cause)]; }
  [[nodiscard]] std::int64_t operator[](Cause cause) const { return parts[static_cast<std::size_t>(cause)]; }
  /// Waits that the pipeline is to blame for: bubble, imbalance, transfer and transport.
  [[nodiscard]] std::int64_t idle() const;
};

/// Every nanosecond of the step has one place, on every rank; result by rank.
[[nodiscard]] std::vector<Attribution> attribute(const Schedule& schedule, const StepView& view);

/// What is wrong with it, in words; empty where the parts and what was left out add up to the wall within 0.5 % of it and none is negative.
[[nodiscard]] std::string problem_of(const Attribution& attribution);

}  // namespace millrace::runtime
