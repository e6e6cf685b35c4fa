#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/schedule/simulator/goodput.hpp"
#include "runtime/schedule/simulator/gradient_reduction.hpp"

namespace millrace::runtime {

// Extrapolates from one simulated pipeline to D data-parallel replicas of it. Every replica runs the same table on its own
// microbatches, so D replicas train on D times the tokens per step (weak scaling). All wait for the slowest replica when
// gradients are summed:
//
//     step = E[max of D replicas] + time of the reduction after the last action + optimizer
//
// Two kinds of noise are modelled separately because they scale differently. A rank's own speed (spread) persists: the slowest
// replica is slow in every step. Jitter is drawn anew for each action: it averages out over a replica's actions, and what remains
// is the step's slowest replica by chance.

/// The error of predictions relative to the step, and its growth: calibrate at P ranks and predict 2P, then calibrate at 2P and
/// predict 4P; `growth` is the difference of the two errors.
struct PredictionError {
  double error = 0;   // at `ranks` ranks
  double growth = 0;  // added for each doubling of the ranks
  double ranks = 1;

  /// error + growth · log2(total ÷ ranks), where the second term is at least 0.
  [[nodiscard]] double at(double total) const;
};

/// Everything beside the costs. Times are in the unit of the costs.
struct ScaleModel {
  double spread = 0;  // of the ranks' speeds: a rank's times are multiplied by exp(spread · normal − spread² ÷ 2), whose mean is 1
  int samples = 2048;
  double effort = 4e6;  // budget of simulated actions; at least 64 samples are taken regardless
  GradientReduction reduction;
  double optimizer = 0;  // of the slowest rank
  FailureModel failures;
  PredictionError error;
};

/// The prediction for one number of replicas.
struct ScalePoint {
  int replicas = 1;
  double ranks = 1;       // ranks of the whole job
  double step = 0;        // expected step time
  double persistent = 0;  // time that slow ranks add to the step without noise
  double transient = 0;   // time that jitter adds to that
  double exposed = 0;     // time of the reduction after the last action
  RankId exposed_rank = no_rank;
  StageId exposed_stage = no_stage;  // the stage whose reduction ends last; no_stage if nothing is exposed
  double low = 0, high = 0;          // the error band: step · (1 ∓ error), low not below 0
  Goodput goodput;
  double efficiency = 1;  // tokens per time and rank, relative to one replica without noise, reduction and failures
};

struct Extrapolation {
  double alone = 0;                                      // makespan of one replica without noise
  int samples = 0;                                       // number of simulated replicas; 1 without noise
  double mean = 0, deviation = 0;                        // of their makespans with all noise
  double persistent_mean = 0, persistent_deviation = 0;  // with the spread only
  // number of replicas up to which the maximum comes from the samples, beyond it from a formula; no limit without noise
  int sampled_replicas = 0;
  std::vector<ScalePoint> points;
};

/// Expected maximum of `draws` independent draws, with replacement, from n samples sorted in ascending order: Σ x_k ((k/n)^D −
/// ((k−1)/n)^D), the limit of infinite resampling. Non-decreasing in `draws`; never exceeds the largest sample.
[[nodiscard]] double expected_maximum(std::span<const double> sorted, int draws);

/// Predicts the step of D replicas for every D in `replicas`.
///
/// Each sample is a replica whose ranks draw their speeds, simulated once without jitter and once with the jitter of costs.noise
/// (whose slowdown applies to every replica). For D up to an eighth of the number of samples, E[max] is expected_maximum() of
/// these. Beyond that, the samples give the level at an eighth, and a formula gives the increase:
///
///     persistent(D) = simulate() of the replica with one rank slowed by exp(spread·√(2 ln D) − spread² ÷ 2), at the rank where that costs
///                     most: the tail of the speeds themselves, not of a normal fitted to steps
///     largest(D)    = persistent(D) + (deviation − persistent deviation)·√(2 ln D)
///     E[max of D]   = E[max of L] + largest(D) − largest(L)        with L an eighth of the samples
///
/// √(2 ln D) deviations bound the expected maximum of D normals from above, and the bound becomes tighter as D grows. The
/// reduction begins where the noiseless replica's actions end: noise that shifts a stage's end relative to the step's end is not
/// modelled. Steps of different replicas are assumed to be independent. The same costs, seed and model give the same numbers on
/// every machine that rounds exp, log and cos alike. Error(config) if the schedule deadlocks; Error(internal) for fewer than one
/// replica, negative noise or mismatched sizes.
[[nodiscard]] Extrapolation extrapolate(const Schedule& schedule, const Costs& costs, const ScaleModel& model,
                                        const std::vector<int>& replicas);

}  // namespace millrace::runtime
