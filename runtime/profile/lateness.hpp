#pragma once

#include <span>
#include <vector>

#include "runtime/profile/profile.hpp"

namespace millrace::runtime {

/// The costliest reasons why the steps took longer than necessary, sorted by cost, at most `max_count`; each with its cost per
/// step, averaged over the steps:
///
///   * a stage whose actions of one kind take longer than those of other stages, on average and per layer. Its cost is the time by
///     which the simulated step is shorter if this stage takes that average time;
///   * a single action far above the median of its stage and kind. Its cost is the delay of the simulated step, divided by the steps;
///   * boundaries of an edge that were produced but had not arrived. Their cost is the delay of the simulated step if all arrive as late;
///   * a rank's waits for data, free slots or snapshots, and an optimizer that takes longer than the others'. Their cost is that time.
///
/// Reasons that cost less than 0.1 % of a step are omitted.
[[nodiscard]] std::vector<Lateness> lateness_of(const Measured& measured, std::span<const ProfiledStep> steps, std::size_t max_count = 10);

}  // namespace millrace::runtime
