#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/schedule/simulator/goodput.hpp"
#include "runtime/schedule/simulator/gradient_reduction.hpp"

namespace millrace::runtime {

// From one simulated pipeline to D data-parallel replicas of it. Every replica runs the same table on its own microbatches, so D replicas
// train D times the tokens of a step (weak scaling). All wait for the slowest where gradients are summed:
//
//     step = E[max of D replicas] + what the reduction takes beyond the last action + optimizer
//
// Two kinds of noise, kept apart because they grow differently. A rank's own speed (spread) stays from step to step: the slowest replica is
// slow in every one. Jitter is drawn anew for each action: it averages out over a replica's actions, and what remains is the luck of the
// slowest of the step.

/// How far predictions were found to be off, as a part of the step, and how that grows: calibrate at P ranks and predict 2P, again from 2P
/// to 4P; `growth` is what the error gains from one to the next.
struct PredictionError {
  double error = 0;   // at `ranks` ranks
  double growth = 0;  // for each doubling beyond them
  double ranks = 1;

  /// error + growth · log2(total ÷ ranks), the second not below 0.
  [[nodiscard]] double at(double total) const;
};

/// Everything beside the costs. Times are in the unit of the costs.
struct ScaleModel {
  double spread = 0;  // of ranks' speeds: each lasts exp(spread · normal − spread² ÷ 2) as long, whose mean is 1
  int samples = 2048;
  double effort = 4e6;  // simulated actions after which there are no more samples, though never fewer than 64
  GradientReduction reduction;
  double optimizer = 0;  // of the slowest rank
  FailureModel failures;
  PredictionError error;
};

/// One number of replicas.
struct ScalePoint {
  int replicas = 1;
  double ranks = 1;       // of the job
  double step = 0;        // expected
  double persistent = 0;  // what slow ranks add to the step without noise
  double transient = 0;   // what jitter adds to that
  double exposed = 0;     // of the reduction, from the last action to its end
  RankId exposed_rank = no_rank;
  StageId exposed_stage = no_stage;  // whose reduction ends last; no_stage where nothing is exposed
  double low = 0, high = 0;          // the band: step · (1 ∓ error), low not below 0
  Goodput goodput;
  double efficiency = 1;  // tokens in a unit of time and rank ÷ those of one replica without noise, reduction and failures
};

struct Extrapolation {
  double alone = 0;                                      // makespan of one replica without noise
  int samples = 0;                                       // replicas that were simulated; 1 without noise
  double mean = 0, deviation = 0;                        // of their makespans with all noise
  double persistent_mean = 0, persistent_deviation = 0;  // with the spread alone
  int sampled_replicas = 0;  // up to here the maximum is that of the samples, beyond it a formula; no limit without noise
  std::vector<ScalePoint> points;
};

/// Expected largest of `draws` independent draws, with replacement, from n samples sorted upwards: Σ x_k ((k/n)^D − ((k−1)/n)^D), which is
/// what resampling without end would give. Never falls as `draws` grows, and cannot exceed the largest sample.
[[nodiscard]] double expected_maximum(std::span<const double> sorted, int draws);

/// The step of D replicas for every D of `replicas`.
///
/// Each sample is a replica whose ranks draw their speeds, simulated once without jitter and once with the jitter of costs.noise (whose
/// slowdown counts as well, on every replica). Up to an eighth of the samples, E[max] is expected_maximum of these. Beyond it the samples
/// keep the level that they have there, and a formula says how much is added:
///
///     persistent(D) = simulate() of the replica with one rank slowed by exp(spread·√(2 ln D) − spread² ÷ 2), at the rank where that costs
///                     most: the tail of the speeds themselves, not of a normal fitted to steps
///     largest(D)    = persistent(D) + (deviation − persistent deviation)·√(2 ln D)
///     E[max of D]   = E[max of L] + largest(D) − largest(L)        with L an eighth of the samples
///
/// √(2 ln D) deviations bound the expected maximum of D normals from above, by less and less as D grows.
/// The reduction begins where the noiseless replica's actions end: noise that moves a stage's end against the step's is not followed.
/// Steps of different replicas are taken to be independent; the same costs, seed and model give the same numbers on every machine that
/// rounds exp, log and cos alike.
/// Error(config) where the schedule is dead; Error(internal) for fewer than one replica, negative noise or sizes that do not fit.
[[nodiscard]] Extrapolation extrapolate(const Schedule& schedule, const Costs& costs, const ScaleModel& model,
                                        const std::vector<int>& replicas);

}  // namespace millrace::runtime
