#pragma once

#include <span>
#include <vector>

#include "runtime/profile/profile.hpp"

namespace millrace::runtime {

/// The costliest causes of what the steps took too long for, the costliest first, `most` at most; each with what it costs a step, in the
/// mean of the steps:
///
///   * a stage one of whose kinds takes more than the mean of the other stages, for as many layers: what the simulated step is shorter with
///     that mean in its place;
///   * a single action far over the median of its stage and kind: what the simulated step is longer with it, shared among the steps;
///   * tokens of an edge that were made and not here: what the simulated step is longer where each comes as late as those waited for;
///   * a rank's waits for data, for free slots and for snapshots, and an optimizer that takes longer than the others': the time itself.
///
/// What costs less than 0.1 % of a step is left out.
[[nodiscard]] std::vector<Lateness> lateness_of(const Measured& measured, std::span<const ProfiledStep> steps, std::size_t most = 10);

}  // namespace millrace::runtime
