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

/// Costs of the stages if stage s of a replica has counts[s] consecutive decoder layers; the first stage also has the embedding,
/// the last the head. `counts` has placement.model_stages() entries that sum to the number of layers, else Error(internal).
[[nodiscard]] std::vector<StageCost> stage_costs(const Placement& placement, const LayerCosts& costs, const std::vector<int>& counts);

struct LayerAssignmentOptions {
  Costs fixed;  // links, slots and noise of the simulations; its `stages` are ignored
  /// How far a layout exceeds a limit, in any unit; 0 if it is within. Empty: no limit. It may be slow: it is called only for
  /// layouts that are faster than the best so far, or while no layout is within the limit.
  std::function<double(const std::vector<int>& counts)> excess;
  double effort = 1e7;         // budget of simulated actions, after which the search returns the best so far
  double excess_effort = 5e4;  // cost of one call of `excess`, in simulated actions
};

/// The number of decoder layers of each stage of a replica, and the simulation's result for it.
struct LayerAssignment {
  std::vector<int> counts;
  double makespan = 0;
  double excess = 0;
};

/// Layer counts that minimise the time of the largest stage, with everything that it computes for a microbatch. Stages may be
/// empty. Time O(stages · layers²).
[[nodiscard]] std::vector<int> minimax_layer_counts(int stages, const LayerCosts& costs);

/// Distributes the layers over the stages of `schedule` so that its makespan is small; a layout within the limit is preferred
/// over any that is not. Starts from the even distribution and from minimax_layer_counts() with its neighbours, and moves one
/// layer at a time from any stage to any other, then two at a time, as long as simulate() shows an improvement. (Minimising the
/// largest stage is not enough: with two chunks per rank the sum counts, and early stages may be heavier than late ones.) The
/// same input gives the same layout. Error(config) if the schedule deadlocks.
[[nodiscard]] LayerAssignment assign_layers(const Schedule& schedule, const LayerCosts& costs, const LayerAssignmentOptions& options = {});

}  // namespace millrace::runtime
