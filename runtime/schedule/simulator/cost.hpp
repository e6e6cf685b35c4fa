#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/placement.hpp"
#include "runtime/schedule/stage_shape.hpp"

namespace millrace::runtime {

/// Durations of one stage's actions. The unit is arbitrary, and the same for all times in this file.
struct StageCost {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double backward = 2;
  double update = 0;  // of the optimizer on all of its weights, once a step; simulations leave it out
  [[nodiscard]] double of(ActionKind kind) const;
  [[nodiscard]] double& of(ActionKind kind);
};

/// The same cost for every stage. `forward`, `input_gradient` and `weight_gradient` are times of a whole rank; they are divided by
/// its chunks; B = I + W. A rank that holds replicas runs them one after another for different microbatches, so each replica's
/// stage has the cost of a whole rank.
[[nodiscard]] std::vector<StageCost> uniform_costs(const Placement& placement, double forward, double input_gradient,
                                                   double weight_gradient);

/// Duration of a forward action of one stage overlapped with a backward action of another. Pairs not listed take the sum of both.
struct PairCost {
  StageId forward;
  StageId backward;
  double duration = 0;
};

/// One edge between two ranks: boundaries leave one after another, each taking bytes ÷ bytes_per_second, and arrive `latency`
/// later. An edge within one rank costs nothing.
struct LinkCost {
  double latency = 0;
  double bytes = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity();
  [[nodiscard]] double occupancy() const { return bytes > 0 ? bytes / bytes_per_second : 0; }
};

/// The same latency on every edge.
[[nodiscard]] std::vector<LinkCost> uniform_links(const Placement& placement, double latency);

/// How the actions of one stage are cut at their exchanges, and what these take: `costs`, by kind, has the fraction of the action's
/// duration that each segment takes, and the time that each exchange, in the order of the posts, occupies the rank's link to its group.
/// Exchanges of a rank take turns.
struct StageExchanges {
  StageShape shape = {};
  std::array<SegmentCosts, all_action_kinds.size()> costs = {};
  std::array<std::vector<double>, all_action_kinds.size()> bytes = {};  // by kind: what a rank sends in each exchange
  [[nodiscard]] const SegmentCosts& of(ActionKind kind) const { return costs[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] SegmentCosts& of(ActionKind kind) { return costs[static_cast<std::size_t>(kind)]; }
};

/// The shapes alone.
[[nodiscard]] std::vector<StageShape> shapes_of(const std::vector<StageExchanges>& stages);

/// What a rank and its replicas transfer during a list: gradient sums that are added, or parameters that are gathered.
struct ListTransfer {
  int after = 0;    // it begins once so many of the rank's actions have ended, and the transfers before it have
  int before = -1;  // the rank's action that it must precede, and with it all later ones; -1: the step ends after it
  double time = 0;  // for which it occupies the rank's link to its replicas
};

/// A rank that stalls once: its action at `index` lasts longer.
struct Stall {
  RankId rank;
  int index = 0;
  double duration = 0;
};

/// Random variation of a run. It depends on these members alone, so two simulations with the same noise are equal.
struct Noise {
  std::vector<double> slowdown;  // by rank: 1.3 means 30 % slower; empty: 1 for all
  double jitter = 0;             // each action × exp(jitter · normal − jitter² ÷ 2), whose mean is 1
  std::uint64_t seed = 0;
  std::vector<Stall> stalls;

  /// The factor by which the duration of this action is multiplied.
  [[nodiscard]] double factor(RankId rank, const Action& action) const;
};

/// All costs that a simulation needs.
struct Costs {
  std::vector<StageCost> stages;               // by StageId
  std::vector<PairCost> pairs;                 // pairs whose duration is not the sum of their two actions
  std::vector<LinkCost> links;                 // by EdgeId; empty: all links are free
  std::vector<int> slots;                      // by EdgeId, slots of an edge's ring; empty: unbounded
  std::vector<StageExchanges> exchanges = {};  // by StageId; empty: no action exchanges rows
  /// By rank: those that exchange rows with it, itself included. Empty: members are alike, and one of them is simulated.
  std::vector<std::vector<RankId>> members = {};
  std::vector<std::vector<ListTransfer>> transfers = {};  // by rank, in their order; empty: there are none
  double launch = 0;                                      // host time per list entry
  int issue_ahead = 2;                                    // number of entries that may be launched and unfinished at a time, at least 1
  Noise noise;
};

/// The costs of this many copies of a pipeline with `placement` (Placement::copies_of); `costs` are those of one. Ranks of all copies
/// are as slow and stall as those of one, but jitter is drawn anew.
[[nodiscard]] Costs replicate(const Costs& costs, const Placement& placement, int copies);

/// Returns costs in which all stages are equal, and so are all pairs: the means over the stages and pairs. Links, slots, launch
/// and noise are dropped, and exchanges take no time.
[[nodiscard]] Costs alike(const Costs& costs);

/// Throws Error(internal) unless there is a cost for every stage and, if any are given, for every edge and rank.
void check_costs(const Costs& costs, const Placement& placement);

}  // namespace millrace::runtime
