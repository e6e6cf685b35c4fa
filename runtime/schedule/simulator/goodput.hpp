#pragma once

namespace millrace::runtime {

/// Failures during a long run, in any one unit of time.
struct FailureModel {
  double rank_interval = 0;  // mean time between failures of one rank; 0: no failures
  double snapshot = 0;       // training time lost to one snapshot
  double restart = 0;        // time from a failure until training continues from the last snapshot
};

/// The effect of failures on a run.
struct Goodput {
  double job_interval = 0;       // mean time between failures of the job
  double snapshot_interval = 0;  // useful work between two snapshots
  double useful = 1;             // fraction of the time that contributes to the trained model
};

/// Failures are independent, so that a job of N ranks fails N times as often: M = rank_interval ÷ N. The interval between
/// snapshots is √(2·snapshot·M) (Young 1974; the first order of Daly 2006), but at least `step`, since snapshots are taken
/// between steps. The useful fraction is useful ÷ (useful + snapshots + lost + restarts): every τ of useful work is followed by a
/// snapshot of δ, and τ + δ sees (τ + δ)/M failures, each of which costs half of that time and a restart:
///
///     useful = τ ÷ (τ + δ + (τ + δ)/M · ((τ + δ)/2 + restart))
///
/// This is a first-order approximation, valid for τ much smaller than M. Without failures all time is useful and there are no
/// intervals. Error(internal) for a negative time or fewer than one rank.
[[nodiscard]] Goodput goodput(const FailureModel& failures, double ranks, double step);

}  // namespace millrace::runtime
