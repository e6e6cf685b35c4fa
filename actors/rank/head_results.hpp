#pragma once

#include <vector>

#include "actors/rank/rank.hpp"

namespace millrace::actors {

/// Loss sums of the microbatches that a head of this rank took in `list`, which has just ended, in order, into `losses`: empty where the
/// list runs no head here.
void losses_of(const Rank& rank, const runtime::RankPlan& list, std::vector<double>& losses);
/// Row `position` of the logits that a head of this rank left in `list`, a logits pass that has just ended; empty where it runs no head
/// here.
[[nodiscard]] std::vector<float> logits_of(const Rank& rank, const runtime::RankPlan& list, std::int64_t position);

}  // namespace millrace::actors
