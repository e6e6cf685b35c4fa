#include "actors/rank/sum_exchange.hpp"

#include <algorithm>

namespace millrace::actors {

std::vector<kernels::Tensor> exchanged_sums(const Rank& rank) {
  // The two ranks of two replicas hold the same stages in opposite orders, so the order of the stages cannot be that of the message.
  struct Sums {
    const runtime::StageShard* shard;
    const runtime::StoredParameter* tensor;
  };
  std::vector<Sums> all;
  for (const runtime::Stage* stage : rank.compute().stages()) {
    if (stage->shard().accumulators().empty()) continue;  // a rank that does not train
    for (const auto& tensor : stage->shard().tensors())
      if (rank.plan().held_twice(tensor.name)) all.push_back({&stage->shard(), &tensor});
  }
  std::ranges::stable_sort(all, {}, [](const Sums& each) { return each.tensor->order; });
  std::vector<kernels::Tensor> sums;
  for (const auto& [shard, tensor] : all)
    for (const auto& use : tensor->uses) sums.push_back(shard->accumulator(*tensor, use.use));
  return sums;
}

}  // namespace millrace::actors
