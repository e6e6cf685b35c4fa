#pragma once

#include <limits>
#include <vector>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// The sum of gradients over data-parallel replicas, in the units of the costs.
struct GradientReduction {
  std::vector<double> bytes;                                        // by StageId, of its gradient sums; empty: no reduction
  double bytes_per_unit = std::numeric_limits<double>::infinity();  // bandwidth of a rank per unit of time
  double latency = 0;                                               // per message

  /// Time of one stage's ring all-reduce over D replicas: 2(D−1) messages in sequence, each of bytes ÷ D, so 2(D−1)·latency +
  /// 2(D−1)/D · bytes ÷ rate (Patarasuk and Yuan 2009); 0 for one replica.
  [[nodiscard]] double duration(double stage_bytes, int replicas) const;
};

/// The reductions of one rank and the computation that can hide them.
struct RankReduction {
  double compute_end = 0;   // end of the rank's own last action
  double end = 0;           // end of its last reduction; compute_end if there is none
  StageId last = no_stage;  // the stage that is reduced last; no_stage if there is none
  [[nodiscard]] double exposed() const { return end > compute_end ? end - compute_end : 0; }
};

/// The reductions by rank. A stage is reduced as soon as its last W or B has ended and the rank's single communication lane is
/// free; the stages of a rank go one after another in the order in which their gradients are complete. Reductions do not slow
/// down computation. `simulation` is simulate(schedule, …); a trace is not needed. Error(internal) if `bytes` is neither empty
/// nor has one entry per stage.
[[nodiscard]] std::vector<RankReduction> reduce_gradients(const Schedule& schedule, const Simulation& simulation,
                                                          const GradientReduction& reduction, int replicas);

}  // namespace millrace::runtime
