#include "tests/reliability/kill_trials.hpp"

namespace millrace::tests {
namespace {

TEST(KillAndResume, TwentyTimesGivesTheBitsOfAnUndisturbedRun) {
  Training training;
  for (int trial = 0; trial < 20; ++trial) kill_and_resume(training, static_cast<Blow>(trial % blows), 100 + trial);
}

}  // namespace
}  // namespace millrace::tests
