#include "tests/reliability/kill_trials.hpp"

namespace millrace::tests {
namespace {

TEST(KillAndResume, GivesTheBitsOfAnUndisturbedRun) {
  Training training;
  kill_and_resume(training, Blow::before_commit, 1);
  kill_and_resume(training, Blow::process_zero, 2);
  kill_and_resume(training, Blow::at_a_point, 3);
}

}  // namespace
}  // namespace millrace::tests
