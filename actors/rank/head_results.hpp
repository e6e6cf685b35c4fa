#pragma once

#include <vector>

#include "actors/rank/rank.hpp"

namespace millrace::actors {

/// Writes the loss sums of the microbatches that a head of this rank processed in `list`, which has just ended, in order, to
/// `losses`; empty if the list runs no head here.
void losses_of(const Rank& rank, const runtime::RankPlan& list, std::vector<double>& losses);
/// Row `position` of the logits that a head of this rank computed in `list`, a logits pass that has just ended; empty if it runs
/// no head here.
[[nodiscard]] std::vector<float> logits_of(const Rank& rank, const runtime::RankPlan& list, std::int64_t position);

}  // namespace millrace::actors
