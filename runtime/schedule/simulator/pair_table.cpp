#include "runtime/schedule/simulator/pair_table.hpp"

namespace millrace::runtime {

PairTable::PairTable(const std::vector<PairCost>& pairs, int stages) : pairs_(&pairs), of_forward_(static_cast<std::size_t>(stages)) {
  for (std::size_t index = 0; index < pairs.size(); ++index)
    of_forward_.at(pairs[index].forward.index()).push_back(static_cast<int>(index));
}

int PairTable::find(const Action& first, const Action& second) const {
  const bool in_order = first.kind == ActionKind::forward;
  const StageId forward = (in_order ? first : second).stage, backward = (in_order ? second : first).stage;
  if ((in_order ? second : first).kind == ActionKind::forward || (in_order ? first : second).kind != ActionKind::forward) return -1;
  for (const int index : of_forward_[forward.index()]) {
    if ((*pairs_)[static_cast<std::size_t>(index)].backward == backward) return index;
  }
  return -1;
}

}  // namespace millrace::runtime
