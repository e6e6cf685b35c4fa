#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/profile/step_view.hpp"

namespace millrace::runtime {

/// The total times of a stage's transfers between replicas over all steps and ranks, in nanoseconds.
struct TransferTime {
  StageId stage;
  TransferKind kind = TransferKind::reduction;
  bool experts = false;        // of weights of experts
  std::int64_t count = 0;      // of buckets, on all ranks
  std::int64_t bytes = 0;      // sent to other members
  std::int64_t under_way = 0;  // from a post to its end
};

/// The transfers of these steps by stage and kind, reductions first; empty if there are none.
[[nodiscard]] std::vector<TransferTime> transfer_times(std::span<const StepView> steps);

}  // namespace millrace::runtime
