#pragma once

#include <span>
#include <vector>

#include "actors/stage_actor.hpp"

namespace millrace::actors {

/// The last stage: final norm, output head and loss. Where its table is tied to the embedding of another rank it updates a copy of its own.
class HeadActor : public StageActor {
 public:
  using StageActor::StageActor;
  [[nodiscard]] const char* name() const override { return "head"; }

 protected:
  /// Sends use 1 to the embedding's rank.
  void exchange_tied() override;
};

/// Loss sums of the first `microbatches` microbatches of the list that has just ended, as the head left them, into `losses`. On the rank
/// that owns the head.
void losses_of(const Rank& rank, std::int64_t microbatches, std::vector<double>& losses);
/// Row `position` of the logits that the head's last logits pass left.
[[nodiscard]] std::vector<float> logits_of(const Rank& rank, std::int64_t position);

}  // namespace millrace::actors
