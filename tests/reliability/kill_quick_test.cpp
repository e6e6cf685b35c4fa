#include "tests/reliability/kill_trials.hpp"

namespace millrace::tests {
namespace {

TEST(SaysLost, TakesNoWordOfTheLaunchersForOurs) {
  const std::string ours = "millrace: process 2 on host (rank 2) was lost: its connection closed";
  EXPECT_TRUE(says_lost(ours, 2));
  EXPECT_FALSE(says_lost(ours, 1));
  EXPECT_FALSE(says_lost("mpirun noticed that process rank 2 with PID 0 on node host exited on signal 9 (Killed).\n", 2));
  EXPECT_FALSE(says_lost("  Process name: [[20842,1],2]\n  Exit code:    137\n", 2));
}

TEST(KillAndResume, GivesTheBitsOfAnUndisturbedRun) {
  Training training;
  kill_and_resume(training, Blow::before_commit, 1);
  kill_and_resume(training, Blow::process_zero, 2);
  kill_and_resume(training, Blow::at_a_point, 3);
}

}  // namespace
}  // namespace millrace::tests
