#include <signal.h>

#include "kernels/base/check.hpp"
#include "tests/reliability/training.hpp"

namespace millrace::tests {
namespace {

class Resume : public ::testing::Test {
 protected:
  /// Stops a run on `processes` in its middle by SIGUSR1; it saves and ends in good order.
  void stop_in_the_middle(int processes, const std::string& directory) {
    Job job(processes > 1 ? mpirun(processes) : std::vector<std::string>{}, training_.words(directory));
    ASSERT_TRUE(job.wait_for("step 7/", Training::patience)) << job.out() << job.err();
    ::kill(job.launcher(), SIGUSR1);  // mpirun hands it on
    const auto end = job.wait(Training::patience);
    ASSERT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
    EXPECT_EQ(end->code, 0) << end->out << end->err;
    EXPECT_TRUE(has(end->out, "as asked")) << end->out;
    EXPECT_FALSE(has(end->out, "step 40/")) << "it was over before it could be stopped";
  }
  void expect_as_undisturbed(const std::string& directory) {
    const auto result = training_.result(directory);
    EXPECT_EQ(result.hash, training_.undisturbed().hash);
    EXPECT_EQ(result.metrics, training_.undisturbed().metrics);
  }
  Training training_;
};

TEST_F(Resume, FourProcessesGoOnAsOneRank) {
  stop_in_the_middle(4, "run");
  const auto end = training_.run(1, "run", {"pipeline.ranks=1"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(has(end.out, "resumes after step")) << end.out;
  expect_as_undisturbed("run");
}

TEST_F(Resume, OneProcessGoesOnAsFourAndAnotherSeedIsRefused) {
  stop_in_the_middle(1, "run");
  const auto other = training_.run(4, "run", {"train.seed=2"});
  EXPECT_EQ(other.code, static_cast<int>(ExitCode::checkpoint)) << other.out << other.err;
  EXPECT_TRUE(has(other.err, "train.seed was 1, now 2")) << other.err;
  const auto end = training_.run(4, "run");
  EXPECT_EQ(end.code, 0) << end.err;
  expect_as_undisturbed("run");
}

TEST_F(Resume, AStoppedProcessIsLostAfterTheTimeout) {
  // Long enough for the warning to come first also where a busy machine made the run pause before: it waits for half as long again.
  const std::vector<std::string> impatient{"cluster.timeout_ms=6000"};
  {
    // Stage 2 takes its time, so that its process stops inside of a step, where the others come to wait for its tokens.
    Job job(mpirun(4), training_.words("run", impatient), {"MILLRACE_FAULT=point=stage2.forward:delay=30"});
    ASSERT_TRUE(job.wait_for("step 6/", Training::patience)) << job.out() << job.err();
    const auto stopped = job.process(2);
    ASSERT_TRUE(stopped);
    ::kill(*stopped, SIGSTOP);
    const auto end = job.wait(Training::patience);
    ASSERT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
    EXPECT_EQ(end->code, static_cast<int>(ExitCode::peer_lost)) << end->err;
    EXPECT_TRUE(has(end->err, "process 2 on ") && has(end->err, "(rank 2) was lost: it was silent for")) << end->err;
    EXPECT_TRUE(has(end->err, "step ")) << end->err;
    // A warning comes before that, and both tell who waits for what.
    EXPECT_TRUE(has(end->err, "warning: [actors.stall_watch] nothing comes for ")) << end->err;
    EXPECT_TRUE(has(end->err, "The cause: rank 2 in process 2 is silent for ")) << end->err;
    EXPECT_TRUE(has(end->err, "from stage 2 on rank 2 (")) << end->err;
    EXPECT_TRUE(job.all_gone(Job::Seconds(10)));
  }
  EXPECT_EQ(training_.run(4, "run").code, 0);
  expect_as_undisturbed("run");
}

}  // namespace
}  // namespace millrace::tests
