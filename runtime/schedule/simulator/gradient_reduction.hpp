#pragma once

#include <limits>
#include <vector>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// The sum of gradients over data-parallel replicas, in the units of the costs.
struct GradientReduction {
  std::vector<double> bytes;                                        // by StageId, of its gradient sums; empty: nothing is reduced
  double bytes_per_unit = std::numeric_limits<double>::infinity();  // what a rank sends in a unit of time
  double latency = 0;                                               // of one message

  /// Time of one stage's ring all-reduce over D replicas: 2(D−1) messages one after another, each of bytes ÷ D, so
  /// 2(D−1)·latency + 2(D−1)/D · bytes ÷ rate (Patarasuk and Yuan 2009); 0 for one replica.
  [[nodiscard]] double duration(double stage_bytes, int replicas) const;
};

/// How long the reductions of one rank outlast what they could hide behind.
struct RankReduction {
  double compute_end = 0;   // of the rank's own last action
  double end = 0;           // of its last reduction; compute_end where there is none
  StageId last = no_stage;  // the stage that is reduced last; no_stage where there is none
  [[nodiscard]] double exposed() const { return end > compute_end ? end - compute_end : 0; }
};

/// By rank. A stage is reduced as soon as its last W or B has ended and the rank's one communication lane is free: stages of a rank one
/// after another in the order in which their gradients become complete. Computation is not slowed down by it.
/// `simulation` is simulate(schedule, …); a trace is not needed. Error(internal) where `bytes` is neither empty nor one for each stage.
[[nodiscard]] std::vector<RankReduction> reduce_gradients(const Schedule& schedule, const Simulation& simulation,
                                                          const GradientReduction& reduction, int replicas);

}  // namespace millrace::runtime
