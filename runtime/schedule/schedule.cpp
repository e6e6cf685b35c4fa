#include "runtime/schedule/schedule.hpp"

#include <algorithm>
#include <utility>

namespace millrace::runtime {

bool Schedule::forward_only() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const auto& list) {
    return std::all_of(list.begin(), list.end(), [](const Action& action) { return action.kind == ActionKind::forward; });
  });
}

MicrobatchId Schedule::microbatch_of(StageId stage, int ordinal) const {
  return MicrobatchId{order().microbatch(placement.replica_of(stage), ordinal)};
}

int Schedule::microbatches_of(StageId stage) const { return static_cast<int>(order().count(placement.replica_of(stage), microbatches)); }

bool Schedule::has(StageId stage, MicrobatchId microbatch) const {
  return microbatch.value >= 0 && microbatch.value < microbatches && order().copy(microbatch.value) == placement.replica_of(stage);
}

RankMicrobatches Schedule::microbatches_of(RankId rank) const {
  std::vector<int> copies;
  for (const StageId stage : placement.stages_of(rank)) copies.push_back(placement.replica_of(stage));
  return {order(), std::move(copies)};
}

}  // namespace millrace::runtime
