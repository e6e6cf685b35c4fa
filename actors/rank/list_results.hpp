#pragma once

#include <vector>

#include "actors/rank/rank.hpp"
#include "runtime/engine/observation_sums.hpp"
#include "runtime/engine/step_loss.hpp"

namespace millrace::actors {

/// The slot of a microbatch's results in each stage that has it.
[[nodiscard]] int result_slot(const Rank& rank, runtime::MicrobatchId microbatch);
/// Writes the loss terms of the rank's stages to `losses`, summed by microbatch in the order of `list`, which has just ended. Elements that
/// are there already are used again, so that a steady step allocates nothing.
void losses_of(const Rank& rank, const runtime::RankPlan& list, std::vector<runtime::LossTermSums>& losses);
/// The same for the observations of the rank's stages: integers added over the microbatches, f64 entries by microbatch.
void observations_of(const Rank& rank, const runtime::RankPlan& list, std::vector<runtime::ObservedSums>& observed);
/// Row `position` of the logits that the first replica's head computed in `list`, a logits pass that has just ended; empty if it is
/// not on this rank.
[[nodiscard]] std::vector<float> logits_of(const Rank& rank, const runtime::RankPlan& list, std::int64_t position);

}  // namespace millrace::actors
