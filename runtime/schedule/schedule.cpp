#include "runtime/schedule/schedule.hpp"

#include <algorithm>

namespace millrace::runtime {

bool Schedule::forward_only() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const auto& list) {
    return std::all_of(list.begin(), list.end(), [](const Action& action) { return action.kind == ActionKind::forward; });
  });
}

MicrobatchId Schedule::first_microbatch(StageId stage) const {
  return MicrobatchId{placement.replica_of(stage) * (microbatches / placement.replicas())};
}

int Schedule::microbatches_of(StageId stage) const {
  const bool last_replica = placement.replica_of(stage) + 1 == placement.replicas();
  return last_replica ? microbatches - first_microbatch(stage).value : microbatches / placement.replicas();
}

bool Schedule::has(StageId stage, MicrobatchId microbatch) const {
  const int ordinal = microbatch.value - first_microbatch(stage).value;
  return ordinal >= 0 && ordinal < microbatches_of(stage);
}

}  // namespace millrace::runtime
