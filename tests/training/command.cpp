#include "tests/training/command.hpp"

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/support/temporary_folder.hpp"

namespace millrace::tests {
namespace {

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

std::string contents(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

JobResult run_job(int processes, const std::vector<std::string>& words, int seconds) {
  const TemporaryFolder folder;
  std::string line = "cd " + quoted(MILLRACE_SOURCE_DIR) + " && timeout --kill-after=5 " + std::to_string(seconds) + " ";
  if (processes > 1) line += quoted(MPIEXEC) + " --allow-run-as-root --oversubscribe --bind-to none -np " + std::to_string(processes) + " ";
  line += quoted(MILLRACE_BINARY_DIR "/millrace");
  for (const auto& word : words) line += " " + quoted(word);
  line += " > " + quoted(folder / "out") + " 2> " + quoted(folder / "err") + " < /dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(folder / "out"), contents(folder / "err")};
}

}  // namespace millrace::tests
