#pragma once

#include "tests/reliability/training.hpp"

namespace millrace::tests {

/// How a trial ends the job the first time.
enum class Blow {
  any_process,    // SIGKILL, any process, any step
  process_zero,   // SIGKILL to the one that leads
  launcher,       // SIGKILL to mpirun
  before_commit,  // SIGKILL while nothing was ever committed, starting up included
  in_a_write,     // in the middle of a write to a checkpoint, metrics or journal
  at_a_point      // at a named point of a save
};
inline constexpr int blows = 6;

/// Whether millrace itself names the process as lost. mpirun prints a line of its own about it, which proves nothing.
[[nodiscard]] bool says_lost(const std::string& err, int process);

/// Starts a training, ends it by the blow at a moment that follows from `seed`, runs the same command until it finishes, and compares with
/// the run that nothing disturbed. On the way: exit codes, messages, no hang, no orphan. Fails where no blow landed.
void kill_and_resume(Training& training, Blow blow, int seed);

}  // namespace millrace::tests
