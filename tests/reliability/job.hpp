#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.hpp"

namespace millrace::tests {

/// How a job ended.
struct JobEnd {
  int code = -1;  // exit code of the launcher; 128 + the signal that killed it
  std::string out, err;
};

/// `mpirun -np N millrace …` as a child of this test, with the means to disturb it. Its processes are marked in their
/// environment, so that one that outlives the launcher is found as well.
class Job {
 public:
  using Seconds = std::chrono::duration<double>;
  struct Process {
    pid_t pid = 0;
    int number = 0;  // rank number under mpirun
  };

  /// `launcher` precedes the command: {} for a process without mpirun, else mpirun and its options. `environment` has entries
  /// NAME=value. `out` replaces the file that collects stdout: the write end of a pipe, which the caller closes.
  Job(std::vector<std::string> launcher, const std::vector<std::string>& words, const std::vector<std::string>& environment = {},
      std::optional<int> out = {});
  ~Job();  // kills the remaining processes
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] pid_t launcher() const { return pid_; }
  [[nodiscard]] std::vector<Process> processes() const;
  [[nodiscard]] std::optional<pid_t> process(int number) const;
  [[nodiscard]] std::string out() const;
  [[nodiscard]] std::string err() const;

  /// Whether stdout contained `text` before the job ended or the time limit passed.
  [[nodiscard]] bool wait_for(const std::string& text, Seconds limit);
  /// How the job ended; nothing if it still runs after `limit`, which means a hang.
  [[nodiscard]] std::optional<JobEnd> wait(Seconds limit);
  /// Whether no process of the job is left after at most `limit`.
  [[nodiscard]] bool all_gone(Seconds limit) const;

 private:
  [[nodiscard]] bool ended();

  TemporaryFolder folder_;
  std::string mark_;
  pid_t pid_ = 0;
  std::optional<int> code_;
};

/// mpirun with the options that a test needs on any machine.
std::vector<std::string> mpirun(int processes);

}  // namespace millrace::tests
