#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "kernels/base/check.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {

/// The result of a command.
struct CommandResult {
  int code = -1;  // exit code; 128 + the signal that killed it
  std::string out, err;
};

/// Runs the built `millrace` with these arguments in the source folder, through a shell. `before` may contain variables or a
/// launcher, `behind` further redirections after the arguments.
inline CommandResult run_millrace(const Words& words, const std::string& before = "", const std::string& behind = "") {
  const TemporaryFolder folder;
  const auto quote = [](const std::string& word) {
    std::string quoted = "'";
    for (const char letter : word) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    return quoted + "'";
  };
  std::string line = "cd " + quote(source_path()) + " && " + before + " " + quote(build_path("millrace"));
  for (const auto& word : words) line += " " + quote(word);
  line += " > " + quote(folder / "out") + " 2> " + quote(folder / "err") + " < /dev/null " + behind;
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(folder / "out"), read_file(folder / "err")};
}

/// The launcher for a number of processes.
inline std::string on_processes(int count) {
  return MPIEXEC " --allow-run-as-root --oversubscribe --bind-to none -np " + std::to_string(count);
}

/// Expects that a command ended with this code and that its message contains all `parts`.
inline void expect_failure(const CommandResult& result, ExitCode code, const Words& parts) {
  EXPECT_EQ(result.code, static_cast<int>(code)) << result.err;
  expect_parts(result.err, parts);
}

}  // namespace millrace::tests
