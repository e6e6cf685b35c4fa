#pragma once

#include "tests/reliability/training.hpp"

namespace millrace::tests {

/// The ways in which a trial ends the job the first time.
enum class Blow {
  any_process,     // SIGKILL to any process, at any step
  process_zero,    // SIGKILL to process 0
  launcher,        // SIGKILL to mpirun
  before_commit,   // SIGKILL before anything was committed, including during start-up
  in_a_write,      // in the middle of a write to a checkpoint, metrics or journal
  at_a_point,      // at a named point of a save
  at_an_exchange,  // before a member posts an exchange of experts' rows: only in runs that share them
  at_a_transfer    // before a replica posts gradient sums or parameters: only in runs whose replicas divide the update
};
inline constexpr int blows = 6;  // those that fit every run

/// Whether millrace itself names the process as lost. mpirun prints a line of its own about it, which does not count.
[[nodiscard]] bool says_lost(const std::string& err, int process);

/// Starts a training, ends it by the blow at a moment that follows from `seed`, runs the same command until it finishes, and
/// compares with an undisturbed run. Also checks exit codes and messages, and that nothing hangs and no process is orphaned.
/// Fails if no blow could be applied.
void kill_and_resume(Training& training, Blow blow, int seed);

}  // namespace millrace::tests
