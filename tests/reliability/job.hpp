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

/// `mpirun -np N millrace …` as a child of this test, with everything it takes to be cruel to it. Its processes are known by a mark in
/// their environment, so that one that outlives the launcher is found as well.
class Job {
 public:
  using Seconds = std::chrono::duration<double>;
  struct Process {
    pid_t pid = 0;
    int number = 0;  // as mpirun counts
  };

  /// `launcher` is put before the words: {} for a process without mpirun, else mpirun and its options. `environment` holds NAME=value.
  /// `out` takes the place of the file that stdout is collected in: the writing end of a pipe, which the caller closes.
  Job(std::vector<std::string> launcher, const std::vector<std::string>& words, const std::vector<std::string>& environment = {},
      std::optional<int> out = {});
  ~Job();  // kills what is left
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] pid_t launcher() const { return pid_; }
  [[nodiscard]] std::vector<Process> processes() const;
  [[nodiscard]] std::optional<pid_t> process(int number) const;
  [[nodiscard]] std::string out() const;
  [[nodiscard]] std::string err() const;

  /// Whether stdout came to hold `text` before the job ended or the time was over.
  [[nodiscard]] bool wait_for(const std::string& text, Seconds limit);
  /// Nothing if it still runs after `limit`: a hang.
  [[nodiscard]] std::optional<JobEnd> wait(Seconds limit);
  /// Whether no process of the job is left `limit` after now.
  [[nodiscard]] bool all_gone(Seconds limit) const;

 private:
  [[nodiscard]] bool ended();

  TemporaryFolder folder_;
  std::string mark_;
  pid_t pid_ = 0;
  std::optional<int> code_;
};

/// mpirun with the options that a test on any machine needs.
std::vector<std::string> mpirun(int processes);

}  // namespace millrace::tests
