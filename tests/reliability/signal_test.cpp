// The effects that a terminal, a batch system and the readers of stdout and stderr have on a run.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <thread>

#include "kernels/base/check.hpp"
#include "tests/reliability/training.hpp"

namespace millrace::tests {
namespace {

/// A pipe of one page, whose read end belongs to the test.
class SmallPipe {
 public:
  SmallPipe() {
    EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0);
    EXPECT_GT(fcntl(ends_[1], F_SETPIPE_SZ, 4096), 0);
  }
  ~SmallPipe() {
    hang_up();
    close_writing();
  }
  [[nodiscard]] int in() const { return ends_[1]; }
  void close_writing() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  void hang_up() {
    if (ends_[0] >= 0) close(ends_[0]);
    ends_[0] = -1;
  }
  std::string read_some() {
    std::array<char, 256> buffer{};
    const ssize_t got = read(ends_[0], buffer.data(), buffer.size());
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }
  std::string read_all() {
    std::string text;
    for (std::string part = read_some(); !part.empty(); part = read_some()) text += part;
    return text;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

class Signals : public ::testing::Test {
 protected:
  void expect_as_undisturbed(const std::string& directory) {
    const auto result = training_.result(directory);
    EXPECT_EQ(result.hash, training_.undisturbed().hash);
    EXPECT_EQ(result.metrics, training_.undisturbed().metrics);
  }
  Training training_;
};

TEST_F(Signals, CtrlCAndAClosedTerminalSaveAndEnd) {
  for (const int signal : {SIGINT, SIGHUP}) {
    const auto directory = "run" + std::to_string(signal);
    {
      Job job({}, training_.words(directory, {"checkpoint.every=0"}));
      ASSERT_TRUE(job.wait_for("step 7/", Training::patience)) << job.out() << job.err();
      ::kill(job.launcher(), signal);
      const auto end = job.wait(Training::patience);
      ASSERT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
      EXPECT_EQ(end->code, 0) << end->out << end->err;
      EXPECT_TRUE(has(end->out, "as requested")) << end->out;
      EXPECT_FALSE(has(end->out, "step 40/")) << "it was over before it could be stopped";
    }
    const auto end = training_.run(1, directory);
    EXPECT_TRUE(has(end.out, "resumes after step")) << end.out;
    expect_as_undisturbed(directory);
  }
}

TEST_F(Signals, ASecondCtrlCEndsAtOnce) {
  // The step lasts longer than any timeout.
  Job job({}, training_.words("run"), {"MILLRACE_FAULT=point=stage0.forward:from=9:delay=600000"});
  ASSERT_TRUE(job.wait_for("step 2/", Training::patience)) << job.out() << job.err();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // until step 3 runs: between two steps one signal ends the run
  ::kill(job.launcher(), SIGINT);
  ASSERT_TRUE(job.wait_for("stop requested", Training::patience)) << job.out() << job.err();
  ::kill(job.launcher(), SIGINT);
  const auto end = job.wait(Training::patience);
  ASSERT_TRUE(end) << "the job hangs";
  EXPECT_EQ(end->code, 128 + SIGINT);
}

TEST_F(Signals, IgnoredOnesStayIgnored) {
  Job job({"/usr/bin/env", "--ignore-signal=INT,HUP"}, training_.words("run"));
  ASSERT_TRUE(job.wait_for("step 7/", Training::patience)) << job.out() << job.err();
  ::kill(job.launcher(), SIGHUP);
  ::kill(job.launcher(), SIGINT);
  const auto end = job.wait(Training::patience);
  ASSERT_TRUE(end) << "the job hangs";
  EXPECT_EQ(end->code, 0) << end->err;
  EXPECT_TRUE(has(end->out, "step 40/")) << end->out;
}

TEST_F(Signals, AnEvaluationIsCutShortAndMadeUpForByTheResumedRun) {
  {
    // Ten steps of four microbatches, then the evaluation, with two seconds per microbatch.
    Job job({}, training_.words("run"), {"MILLRACE_FAULT=point=stage0.forward:from=41:delay=2000"});
    ASSERT_TRUE(job.wait_for("step 10/", Training::patience)) << job.out() << job.err();
    ::kill(job.launcher(), SIGTERM);
    const auto end = job.wait(Training::patience);
    ASSERT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
    EXPECT_EQ(end->code, 0) << end->out << end->err;
    EXPECT_TRUE(has(end->out, "stopped after step 10 as requested")) << end->out;
    EXPECT_FALSE(has(end->out, "evaluation after step 10")) << end->out;
  }
  const auto end = training_.run(2, "run");
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(has(end.out, "resumes after step 10")) << end.out;
  EXPECT_TRUE(has(end.out, "evaluation after step 10")) << end.out;
  expect_as_undisturbed("run");
}

TEST_F(Signals, ARunGoesOnWithoutTheReaderOfItsLines) {
  SmallPipe pipe;
  Job job({}, training_.words("run"), {}, pipe.in());
  pipe.close_writing();
  EXPECT_FALSE(pipe.read_some().empty());
  pipe.hang_up();  // like `| head` after its last line
  const auto end = job.wait(Training::patience);
  ASSERT_TRUE(end) << "the job hangs\n" << job.err();
  EXPECT_EQ(end->code, 0) << end->err;
  EXPECT_TRUE(has(end->err, "warning: stdout cannot be written (Broken pipe): the run continues")) << end->err;
  expect_as_undisturbed("run");
}

TEST_F(Signals, ARunDoesNotWaitForTheReaderOfItsLines) {
  SmallPipe pipe;
  Job job({}, training_.words("run"), {}, pipe.in());
  pipe.close_writing();
  const auto last = std::filesystem::path(training_.path("run")) / "checkpoints/step-00000040";
  const auto deadline = std::chrono::steady_clock::now() + Training::patience;
  while (!std::filesystem::exists(last) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(std::filesystem::exists(last)) << "the run waits for a reader";
  const auto lines = pipe.read_all();
  for (const char* step : {"step 1/", "step 20/", "step 40/"}) EXPECT_TRUE(has(lines, step)) << lines;
  const auto end = job.wait(Training::patience);
  ASSERT_TRUE(end) << "the job hangs";
  EXPECT_EQ(end->code, 0) << end->err;
}

TEST_F(Signals, AStderrThatNobodyReadsDoesNotStopHeartbeats) {
  // Rank 1 is in one forward for so long that process 0 warns about it, and for longer than a process may be silent.
  const auto path = training_.path("unread");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int unread = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(unread, 0);
  while (write(unread, "xxxxxxxx", 8) > 0) continue;
  auto launcher = mpirun(2);
  for (const char* word : {"/bin/sh", "-c", "exec \"$@\" 2> \"$MILLRACE_TEST_STDERR\"", "sh"}) launcher.emplace_back(word);
  Job job(
      launcher,
      training_.words("run", {"pipeline.ranks=2", "train.steps=6", "evaluate.every=0", "cluster.stall_ms=200", "cluster.timeout_ms=3000"}),
      {"MILLRACE_FAULT=point=stage1.forward:hit=14:delay=7000", "MILLRACE_TEST_STDERR=" + path});
  const auto end = job.wait(Training::patience);
  std::string said;
  std::array<char, 65536> buffer{};
  for (ssize_t got; (got = read(unread, buffer.data(), buffer.size())) > 0;) said.append(buffer.data(), static_cast<std::size_t>(got));
  close(unread);
  ASSERT_TRUE(end) << "the job hangs\n" << job.out();
  EXPECT_EQ(end->code, 0) << said.substr(said.find_first_not_of('x')) << end->err;
  EXPECT_TRUE(has(end->out, "step 6/6")) << end->out;
}

}  // namespace
}  // namespace millrace::tests
