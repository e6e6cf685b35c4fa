// How whole processes end: each test forks the processes of a job and reads their output and their exit codes.
#include "cluster/host/abort.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "cluster/control/control_link.hpp"

namespace millrace::cluster {
namespace {

/// A forked process that runs body() with stderr in a pipe.
class Child {
 public:
  template <class Body>
  explicit Child(Body body) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDERR_FILENO);
      close(ends[0]);
      close(ends[1]);
      body();
      _exit(99);
    }
    close(ends[1]);
    stderr_ = ends[0];
  }
  ~Child() {
    if (!ended_) end_by(SIGKILL);
    close(stderr_);
  }
  Child(Child&& other) noexcept : pid_(other.pid_), stderr_(other.stderr_), ended_(other.ended_) {
    other.ended_ = true, other.stderr_ = -1;
  }

  void end_by(int signal) const { kill(pid_, signal); }

  /// Returns the exit code, or minus the signal, and stores the output in `text`. Only ctest's limit bounds the time.
  int wait() {
    char buffer[4096];
    for (ssize_t got; (got = read(stderr_, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(got));
    int status = 0;
    waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string text;

 private:
  pid_t pid_ = -1;
  int stderr_ = -1;
  bool ended_ = false;
};

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Runs a job of three processes that have joined; each then calls `during`.
template <class During>
std::vector<Child> start_job(int ready_pipe, During during) {
  const ClusterConfig config;
  Listener listener(config, true);
  std::vector<Child> children;
  for (int process = 0; process < 3; ++process) {
    children.emplace_back([&, process] {
      ControlHandlers handlers;
      handlers.progress = [process](std::span<Progress> records) {
        records[0] = {process, process + 10, 5, 0, 17, {}};
        records[0].set_action("forward");
        return std::size_t{1};
      };
      ControlLink link(config, Topology(3, 3, process), listener.rendezvous(), process == 0 ? &listener : nullptr, handlers);
      link.agree({{"config", "same"}});
      std::this_thread::sleep_for(std::chrono::milliseconds(250));  // one or two heartbeats
      EXPECT_EQ(write(ready_pipe, "r", 1), 1);
      during(link, process);
      std::this_thread::sleep_for(std::chrono::seconds(60));
    });
  }
  return children;
}

class Job : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(ready_), 0); }
  void TearDown() override { close(ready_[0]), close(ready_[1]); }
  void wait_until_all_work() {
    char byte;
    for (int process = 0; process < 3; ++process) ASSERT_EQ(read(ready_[0], &byte, 1), 1);
  }
  int ready_[2] = {};
};

TEST_F(Job, AKilledProcessEndsTheOthersWithOneMessage) {
  for (int victim = 0; victim < 3; ++victim) {
    std::vector<Child> children = start_job(ready_[1], [](ControlLink&, int) {});
    wait_until_all_work();
    children[static_cast<std::size_t>(victim)].end_by(SIGKILL);
    std::string said;
    for (int process = 0; process < 3; ++process) {
      Child& child = children[static_cast<std::size_t>(process)];
      EXPECT_EQ(child.wait(), process == victim ? -SIGKILL : static_cast<int>(ExitCode::peer_lost));
      said += child.text;
    }
    EXPECT_EQ(times(said, "was lost: its connection"), 1u) << said;  // noticed at once, not by a timeout
    EXPECT_EQ(times(said, fmt::format("process {} on ", victim)), 1u) << said;
    EXPECT_EQ(times(said, fmt::format("rank {}: forward, stage {}, microbatch 5, step 17", victim, victim + 10)), 1u) << said;
  }
}

TEST_F(Job, AStoppedProcessIsLostToo) {
  std::vector<Child> children = start_job(ready_[1], [](ControlLink&, int) {});
  wait_until_all_work();
  children[1].end_by(SIGSTOP);
  EXPECT_EQ(children[0].wait(), static_cast<int>(ExitCode::peer_lost));
  EXPECT_EQ(children[2].wait(), static_cast<int>(ExitCode::peer_lost));
  EXPECT_EQ(times(children[0].text, "process 1 on "), 1u);
  EXPECT_EQ(times(children[0].text, "silent"), 1u);
  EXPECT_EQ(children[2].text, "");
  children[1].end_by(SIGKILL);
  EXPECT_EQ(children[1].wait(), -SIGKILL);
}

TEST_F(Job, AFailureEndsAllWithItsCodeAndOneMessage) {
  std::vector<Child> children = start_job(ready_[1], [](ControlLink& link, int process) {
    if (process != 2) return;
    const bool speak = link.report_failure(ExitCode::numerics, "[train] the loss is not finite");
    abort_job(ExitCode::numerics, "[train] the loss is not finite", speak);
  });
  std::string said;
  for (Child& child : children) {
    EXPECT_EQ(child.wait(), static_cast<int>(ExitCode::numerics));
    said += child.text;
  }
  EXPECT_EQ(times(said, "the loss is not finite"), 1u) << said;
}

TEST(Abort, TheFirstErrorWins) {
  Child child([] {
    std::thread second([] {
      while (abort_message().empty()) std::this_thread::yield();
      abort_job(ExitCode::data, "second");
    });
    add_abort_hook([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // gives the second failure a chance to be noticed
      dprintf(STDERR_FILENO, "hook saw: %s\n", abort_message().data());
    });
    abort_job(ExitCode::storage, "first");
  });
  EXPECT_EQ(child.wait(), static_cast<int>(ExitCode::storage));
  EXPECT_EQ(child.text, "first\nhook saw: first\n");
}

TEST(Abort, AHookThatHangsDoesNotKeepTheProcess) {
  Child child([] {
    add_abort_hook([] { throw 1; });
    add_abort_hook([] { std::this_thread::sleep_for(std::chrono::seconds(60)); });
    abort_job(ExitCode::storage, "message", false);
  });
  EXPECT_EQ(child.wait(), static_cast<int>(ExitCode::storage));
  EXPECT_EQ(child.text, "");
}

/// Exit code, or minus the signal, of a child whose stderr is a pipe that is not read; empty if it does not end in time.
template <class Body>
std::optional<int> end_of_unread_child(bool reader_is_gone, const Body& body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]), close(ends[1]);
    if (!reader_is_gone) {  // the parent has the other end
      fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
      const std::string much(4096, 'x');
      while (write(STDERR_FILENO, much.data(), much.size()) > 0) continue;
      while (write(STDERR_FILENO, "x", 1) > 0) continue;
      fcntl(STDERR_FILENO, F_SETFL, 0);
    }
    body();
    _exit(99);
  }
  close(ends[1]);
  if (reader_is_gone) close(ends[0]);
  std::optional<int> end;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!end && std::chrono::steady_clock::now() < deadline) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) end = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (!end) kill(child, SIGKILL), waitpid(child, nullptr, 0);
  if (!reader_is_gone) close(ends[0]);
  return end;
}

/// Ends by abort_job, with a hook that signals the parent that it ran.
void abort_with_hook(int pipe_end) {
  signal(SIGPIPE, SIG_DFL);
  add_abort_hook([pipe_end] { static_cast<void>(write(pipe_end, "h", 1)); });
  abort_job(ExitCode::numerics, "the message that nobody reads");
}

TEST(Abort, AStderrThatNobodyReadsOrThatIsClosedKeepsNeitherTheProcessNorItsHooksNorItsCode) {
  for (const bool gone : {false, true}) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
    EXPECT_EQ(end_of_unread_child(gone, [&] { abort_with_hook(ends[1]); }), static_cast<int>(ExitCode::numerics)) << "gone: " << gone;
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 1) << "the hook did not run, gone: " << gone;
    close(ends[0]), close(ends[1]);
  }
}

}  // namespace
}  // namespace millrace::cluster
