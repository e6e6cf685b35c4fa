#pragma once

#include <span>
#include <vector>

#include "runtime/profile/profile.hpp"

namespace millrace::runtime {

/// The costliest reasons why the steps took longer than necessary, sorted by cost, at most `max_count`; each with its cost per
/// step, averaged over the steps:
///
///   * a stage that needs more time for one kind of action than the mean of the other stages for as many layers: by how much the simulated
///     step is shorter with that mean in its place;
///   * a single action far above the median of its stage and kind: by how much it makes the simulated step longer, divided by the steps;
///   * boundaries of an edge that were produced but had not arrived: by how much the simulated step is longer if each is as late as those;
///   * a rank's waits for data, free slots or snapshots, and an optimizer that takes longer than the others': the time itself.
///
/// Reasons that cost less than 0.1 % of a step are left out.
[[nodiscard]] std::vector<Lateness> lateness_of(const Measured& measured, std::span<const ProfiledStep> steps, std::size_t max_count = 10);

}  // namespace millrace::runtime
