#pragma once

namespace millrace::runtime {

/// Failures of a long run, in any one unit of time.
struct FailureModel {
  double rank_interval = 0;  // mean time between failures of one rank; 0: none fails
  double snapshot = 0;       // what one snapshot takes from training
  double restart = 0;        // from a failure until training goes on from the last snapshot
};

/// How a run lives with them.
struct Goodput {
  double job_interval = 0;       // mean time between failures of the job
  double snapshot_interval = 0;  // of useful work between two snapshots
  double useful = 1;             // part of the time that ends up in the trained model
};

/// Failures are independent, so that a job of N ranks fails N times as often: M = rank_interval ÷ N. The interval between snapshots is
/// √(2·snapshot·M) (Young 1974; the first order of Daly 2006), at least `step`, since snapshots are taken between steps. The useful part is
/// useful ÷ (useful + snapshots + lost + restarts): for every τ of useful work δ goes into a snapshot, and in τ + δ there are (τ + δ)/M
/// failures, each of which loses half of it and a restart:
///
///     useful = τ ÷ (τ + δ + (τ + δ)/M · ((τ + δ)/2 + restart))
///
/// This is first order, meant for τ much smaller than M. Without failures all is useful and there are no intervals.
/// Error(internal) for a negative time or fewer than one rank.
[[nodiscard]] Goodput goodput(const FailureModel& failures, double ranks, double step);

}  // namespace millrace::runtime
