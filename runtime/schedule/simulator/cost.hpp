#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/placement.hpp"

namespace millrace::runtime {

/// Durations of one stage's actions, in any one unit (the rest of this file in the same).
struct StageCost {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double backward = 2;
  [[nodiscard]] double of(ActionKind kind) const;
  [[nodiscard]] double& of(ActionKind kind);
};

/// The same cost for every stage: `forward`, `input_gradient`, `weight_gradient` of a whole rank, divided by the chunks of a rank; B = I +
/// W. A rank that holds replicas has them one after another for different microbatches, so that each counts as a whole.
[[nodiscard]] std::vector<StageCost> uniform_costs(const Placement& placement, double forward, double input_gradient,
                                                   double weight_gradient);

/// Duration of an overlapped pair of these two stages; without one a pair takes the sum of its halves.
struct PairCost {
  StageId forward;
  StageId backward;
  double duration = 0;
};

/// One edge between two ranks: tokens leave one after another, each for bytes ÷ bytes_per_second, and arrive `latency` later.
/// An edge within one rank costs nothing.
struct LinkCost {
  double latency = 0;
  double bytes = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity();
  [[nodiscard]] double occupancy() const { return bytes > 0 ? bytes / bytes_per_second : 0; }
};

/// The same latency on every edge.
[[nodiscard]] std::vector<LinkCost> uniform_links(const Placement& placement, double latency);

/// A rank that stands still once: its action at `index` lasts longer.
struct Stall {
  RankId rank;
  int index = 0;
  double duration = 0;
};

/// What makes a run uneven. All of it is a function of the keys, so two runs with the same noise are the same.
struct Noise {
  std::vector<double> slowdown;  // by rank: 1.3 is 30 % slower; empty: 1 for all
  double jitter = 0;             // each action × exp(jitter · normal − jitter² ÷ 2), whose mean is 1
  std::uint64_t seed = 0;
  std::vector<Stall> stalls;

  /// What the duration of this action is multiplied by.
  [[nodiscard]] double factor(RankId rank, const Action& action) const;
};

/// Everything a simulation prices a schedule with.
struct Costs {
  std::vector<StageCost> stages;  // by StageId
  std::vector<PairCost> pairs;    // those that differ from the sum of their halves
  std::vector<LinkCost> links;    // by EdgeId; empty: all free
  std::vector<int> slots;         // by EdgeId, tokens that an edge's ring holds; empty: unbounded
  double launch = 0;              // of the host, for each entry of a list
  int issue_ahead = 2;            // entries that may be launched and not finished, at least 1
  Noise noise;
};

/// Stages, and pairs, that are all alike: each kind takes the mean over the stages. Nothing else is taken over.
[[nodiscard]] Costs alike(const Costs& costs);

/// Throws Error(internal) unless there is a cost for every stage and, where any are given, for every edge and rank.
void check_costs(const Costs& costs, const Placement& placement);

}  // namespace millrace::runtime
