#pragma once

#include <vector>

#include "actors/stage_actor.hpp"

namespace millrace::actors {

/// The last stage: a StageActor with a name of its own. Final norm, output head and loss are in its program. What its lists leave for the
/// coordinator is read by the functions below. Where its table is tied to the embedding of another rank, its rank updates a copy.
class HeadActor : public StageActor {
 public:
  using StageActor::StageActor;
  [[nodiscard]] const char* name() const override { return "head"; }
};

/// Loss sums of the microbatches that a head of this rank took in `list`, which has just ended, in order, into `losses`: empty where the
/// list runs no head here.
void losses_of(const Rank& rank, const runtime::RankPlan& list, std::vector<double>& losses);
/// Row `position` of the logits that a head of this rank left in `list`, a logits pass that has just ended; empty where it runs no head
/// here.
[[nodiscard]] std::vector<float> logits_of(const Rank& rank, const runtime::RankPlan& list, std::int64_t position);

}  // namespace millrace::actors
