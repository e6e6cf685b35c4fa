#include "runtime/schedule/replicate.hpp"

namespace millrace::runtime {

Schedule replicate(const Schedule& one, int copies) {
  Schedule all{one.name, Placement::copies_of(one.placement, copies), copies * one.microbatches, {}};
  for (int copy = 0; copy < copies; ++copy) {
    for (const auto& list : one.ranks) {
      auto& own = all.ranks.emplace_back(list);
      for (Action& action : own) {
        action.stage = StageId{copy * one.placement.stages() + action.stage.value};
        action.microbatch = all.microbatch_of(action.stage, one.ordinal_of(action.microbatch));
      }
    }
  }
  return all;
}

Schedule one_copy(const Schedule& all) {
  Schedule one{all.name, all.placement.one_copy(), all.microbatches / all.placement.copies(), {}};
  for (int rank = 0; rank < one.placement.ranks(); ++rank) {
    auto& own = one.ranks.emplace_back(all.ranks.at(static_cast<std::size_t>(rank)));
    for (Action& action : own) action.microbatch = one.microbatch_of(action.stage, all.ordinal_of(action.microbatch));
  }
  return one;
}

Ledger replicate(const Ledger& ledger, const Placement& placement, int copies) {
  Ledger all;
  const Placement whole = Placement::copies_of(placement, copies);
  for (int copy = 0; copy < copies; ++copy) all.stages.insert(all.stages.end(), ledger.stages.begin(), ledger.stages.end());
  for (const Edge& edge : edges_of(whole)) {
    const StageId consumer{edge.consumer.value % placement.stages()};
    all.depths.push_back(ledger.depths.at(edge_into(placement, consumer, edge.kind)->index()));
  }
  return all;
}

}  // namespace millrace::runtime
