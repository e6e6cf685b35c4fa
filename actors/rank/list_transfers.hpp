#pragma once

#include <cstddef>
#include <vector>

#include "actors/setup/pipeline_plan.hpp"
#include "runtime/engine/rank_plan.hpp"
#include "runtime/engine/reduction.hpp"
#include "runtime/engine/residence.hpp"

namespace millrace::actors {

/// What replicas add together of a training list: the gradient sums of a stage at their end or, with leaves (runtime::ShardLayout), the
/// gradients of one action.
struct ListedSum {
  runtime::StageId stage;
  int leaf = 0;  // the slot of the gradients
  // Whether the list has no later one of the stage. Then the sums of weights of experts are added too, and before all of them the rank's
  // own sets.
  bool last = true;
  int complete = 0;  // so many entries are finished when it is complete
};

/// The parameters of a stage that a list gathers before it uses them.
struct ListedGather {
  runtime::Residence residence;
  std::size_t after = 0;  // it comes after so many of the list's sums
};

/// What a rank and its replicas transfer during a list, in one order for all of them, in which nothing waits for what comes later. Pure
/// data.
struct ListTransfers {
  std::vector<ListedSum> sums;        // in the order in which the list completes them
  std::vector<int> sum_of;            // by entry: the sum that it completes; -1: none
  std::vector<ListedGather> gathers;  // in the order in which the list needs them
};

/// `residences`: WeightSlots::run of the list. A list without gradients has no sums. The result is in `reuse`, whose memory suffices after
/// the first list.
[[nodiscard]] ListTransfers list_transfers(const PipelinePlan& plan, const runtime::Reduction& reduction, const runtime::RankPlan& list,
                                           const std::vector<runtime::Residence>& residences, ListTransfers reuse = {});

}  // namespace millrace::actors
