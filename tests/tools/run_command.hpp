#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/support/temporary_folder.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {

/// What a command did.
struct CommandResult {
  int code = -1;  // exit code; 128 + the signal that killed it
  std::string out, err;
};

/// Runs the built `millrace` with these words, as a shell would, in the source folder.
inline CommandResult run_millrace(const Words& words, const std::string& environment = "") {
  const TemporaryFolder folder;
  const auto quote = [](const std::string& word) {
    std::string quoted = "'";
    for (const char letter : word) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    return quoted + "'";
  };
  std::string line = "cd " + quote(MILLRACE_SOURCE_DIR) + " && " + environment + " " + quote(MILLRACE_BINARY_DIR "/millrace");
  for (const auto& word : words) line += " " + quote(word);
  line += " > " + quote(folder / "out") + " 2> " + quote(folder / "err") + " < /dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(folder / "out"), read_file(folder / "err")};
}

}  // namespace millrace::tests
