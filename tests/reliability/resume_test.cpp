#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "kernels/base/check.hpp"
#include "tests/reliability/training.hpp"

namespace millrace::tests {
namespace {

class Resume : public ::testing::Test {
 protected:
  /// Stops a run on `processes` processes halfway by SIGUSR1; it must save and exit cleanly.
  void stop_in_the_middle(int processes, const std::string& directory) {
    Job job(processes > 1 ? mpirun(processes) : std::vector<std::string>{}, training_.words(directory));
    ASSERT_TRUE(job.wait_for("step 7/", Training::patience)) << job.out() << job.err();
    ::kill(job.launcher(), SIGUSR1);  // mpirun forwards it
    const auto end = job.wait(Training::patience);
    ASSERT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
    EXPECT_EQ(end->code, 0) << end->out << end->err;
    EXPECT_TRUE(has(end->out, "as requested")) << end->out;
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

/// Holds what a process that trains in the run directory holds, until it ends.
class HeldRun {
 public:
  explicit HeldRun(const std::string& directory) {
    std::filesystem::create_directories(directory);
    lock_ = ::open((directory + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    EXPECT_EQ(::flock(lock_, LOCK_EX | LOCK_NB), 0);
  }
  ~HeldRun() { release(); }
  HeldRun(const HeldRun&) = delete;
  HeldRun& operator=(const HeldRun&) = delete;
  void release() {
    if (lock_ >= 0) ::close(std::exchange(lock_, -1));
  }

 private:
  int lock_ = -1;
};

const std::vector<std::string> two_steps{"train.steps=2", "train.warmup_steps=1", "sample.tokens=0"};

TEST_F(Resume, WaitsForTheProcessesOfALauncherThatWasKilled) {
  HeldRun before(training_.path("run"));
  Job job({}, training_.words("run", two_steps));
  const std::string waits = "another process is training in this run directory; waiting up to 5 s";
  while (!has(job.err(), waits)) {
    ASSERT_FALSE(job.wait(Job::Seconds(0.002))) << "it ended instead of waiting\n" << job.out() << job.err();
  }
  before.release();
  const auto end = job.wait(Training::patience);
  ASSERT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
  EXPECT_EQ(end->code, 0) << end->err;
  EXPECT_EQ(end->err.find(waits), end->err.rfind(waits)) << "said more than once\n" << end->err;
}

TEST_F(Resume, GivesUpOnARunDirectoryThatStaysInUse) {
  const HeldRun before(training_.path("run"));
  const auto end = training_.run(1, "run", two_steps);
  EXPECT_EQ(end.code, static_cast<int>(ExitCode::start)) << end.out << end.err;
  EXPECT_TRUE(has(end.err, "\n[runtime.checkpoint] " + training_.path("run") + ": another process is training in this run directory"))
      << end.err;
}

TEST_F(Resume, AStoppedProcessIsLostAfterTheTimeout) {
  // Long enough for the warning to come first, even if a busy machine made the run pause before: the warning waits for 1.5 times
  // the longest pause.
  const std::vector<std::string> impatient{"cluster.timeout_ms=6000"};
  {
    // Stage 2 is slow, so that its process stops within a step, in which the others then wait for its boundaries.
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
    // A warning precedes that, and both messages say who waits for what.
    EXPECT_TRUE(has(end->err, "warning: [actors.stall_watch] no progress for ")) << end->err;
    EXPECT_TRUE(has(end->err, "The cause: rank 2 in process 2 has been silent for ")) << end->err;
    EXPECT_TRUE(has(end->err, "from stage 2 on rank 2 (")) << end->err;
    EXPECT_TRUE(has(end->err, ". The job ends; the same command resumes it after step 5, from ")) << end->err;
    EXPECT_TRUE(job.all_gone(Job::Seconds(10)));
  }
  EXPECT_EQ(training_.run(4, "run").code, 0);
  expect_as_undisturbed("run");
}

// It wakes up when the others are gone.
TEST_F(Resume, WhoWasStoppedSaysThatItSlept) {
  // No checkpoint yet, and then no run directory.
  const struct {
    std::vector<std::string> keys;
    const char* advice;
  } table[] = {{{}, "has no checkpoint yet, so the same command begins anew"},
               {{"run.directory="}, "The job ends; nothing of it was saved, since run.directory is not set"}};
  for (const auto& row : table) {
    const auto keys = with({"cluster.timeout_ms=3000", "checkpoint.every=0"}, row.keys);
    Job job(mpirun(2), training_.words("asleep", keys), {"MILLRACE_FAULT=point=stage2.forward:delay=200"});
    ASSERT_TRUE(job.wait_for("step 1/", Training::patience)) << job.out() << job.err();
    const auto stopped = job.process(1);
    ASSERT_TRUE(stopped);
    ::kill(*stopped, SIGSTOP);
    while (!has(job.err(), "was lost: it was silent for")) ASSERT_FALSE(job.wait(Job::Seconds(0.01))) << job.err();
    ::kill(*stopped, SIGCONT);  // mpirun leaves it a second to live
    const auto end = job.wait(Training::patience);
    ASSERT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
    EXPECT_EQ(end->code, static_cast<int>(ExitCode::peer_lost)) << end->err;
    EXPECT_TRUE(has(end->err, "[cluster] process 1 on ") && has(end->err, "(ranks 2-3) did not run for ")) << end->err;
    EXPECT_TRUE(has(end->err, row.advice)) << end->err;
    EXPECT_FALSE(has(end->err, "(ranks 0-1) was lost")) << "it blames the other\n" << end->err;
  }
}

}  // namespace
}  // namespace millrace::tests
