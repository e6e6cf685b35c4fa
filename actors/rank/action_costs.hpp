#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "runtime/schedule/action.hpp"
#include "runtime/schedule/placement.hpp"

namespace millrace::actors {

/// The total cost of one kind of action on a stage, in nanoseconds: time on the GPU, and the worker's time to enqueue.
struct ActionCost {
  std::int32_t stage = 0;
  runtime::ActionKind kind = runtime::ActionKind::forward;
  std::int64_t count = 0, device = 0, host = 0;
  auto tie() { return std::tie(stage, kind, count, device, host); }
};

/// Accumulates the costs of a rank's training actions on a GPU. Allocates nothing after the constructor. The rank's control adds
/// to it; it may be read while nothing runs.
class ActionCosts {
 public:
  /// Counts the steps from `first_step` on, counted from 0.
  ActionCosts(const runtime::Placement& placement, runtime::RankId rank, std::int64_t first_step);
  void add(std::int64_t step, const runtime::Action& action, std::int32_t segment, std::int64_t device, std::int64_t host);
  /// The sums of the actions that ran, by chunk and kind.
  [[nodiscard]] std::vector<ActionCost> sums() const;

 private:
  runtime::Placement placement_;
  std::int64_t first_step_;
  std::vector<std::array<ActionCost, runtime::all_action_kinds.size()>> chunks_;
};

}  // namespace millrace::actors
