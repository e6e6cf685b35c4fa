#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::runtime {

/// Times of a model's parts for one microbatch, in any one unit.
struct LayerCosts {
  StageCost embedding{0, 0, 0, 0};
  std::vector<StageCost> layers;  // decoder layers in order
  StageCost head{0, 0, 0, 0};     // final norm, head and loss
};

/// Costs of the stages when stage s of a replica has counts[s] consecutive decoder layers: the first also has the embedding, the last the
/// head. `counts` is as long as placement.model_stages() and sums to all layers; Error(internal) otherwise.
[[nodiscard]] std::vector<StageCost> stage_costs(const Placement& placement, const LayerCosts& costs, const std::vector<int>& counts);

struct PartitionOptions {
  Costs fixed;  // links, slots, noise of the runs that are compared; its stages are not looked at
  /// How far a layout is beyond a limit, in any unit, 0 where it is within; empty: no limit. It may be slow: it is asked only about layouts
  /// that are faster than the best so far, or while nothing is within.
  std::function<double(const std::vector<int>& counts)> excess;
  double effort = 1e7;         // simulated actions after which the search takes what it has
  double excess_effort = 5e4;  // what a question about the excess counts for, in simulated actions
};

/// Decoder layers of each stage of a replica, and what the simulator says of them.
struct Partition {
  std::vector<int> counts;
  double makespan = 0;
  double excess = 0;
};

/// Counts whose largest stage, with all that it computes for a microbatch, is as small as it can be. Stages may be empty.
/// Time O(stages · layers²).
[[nodiscard]] std::vector<int> smallest_largest_stage(int stages, const LayerCosts& costs);

/// Layers of the stages of `schedule` such that its makespan is small; a layout within the limit is better than any that is not. Starts
/// from an even spread and from smallest_largest_stage with its neighbours, and moves a layer at a time from any stage to any other, then
/// two at a time, as long as simulate() says it helps (a largest stage as small as possible is not yet the fastest: with two chunks a rank
/// sums count, and early stages may be heavier than late ones). The same input gives the same layout. Error(config) for a schedule that is
/// dead.
[[nodiscard]] Partition partition(const Schedule& schedule, const LayerCosts& costs, const PartitionOptions& options = {});

}  // namespace millrace::runtime
