#include "tests/training/command.hpp"

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::tests {
namespace {

std::string in_quotes(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

std::string contents(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

JobResult run_job(int processes, const std::vector<std::string>& words, int seconds, const std::vector<std::string>& environment,
                  const std::string& program) {
  const TemporaryFolder folder;
  std::string line = "cd " + in_quotes(source_path()) + " && env ";
  for (const auto& variable : environment) line += in_quotes(variable) + " ";
  line += "timeout --kill-after=5 " + std::to_string(seconds) + " ";
  if (processes > 1)
    line += in_quotes(MPIEXEC) + " --allow-run-as-root --oversubscribe --bind-to none -np " + std::to_string(processes) + " ";
  line += in_quotes(build_path(program));
  for (const auto& word : words) line += " " + in_quotes(word);
  line += " > " + in_quotes(folder / "out") + " 2> " + in_quotes(folder / "err") + " < /dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(folder / "out"), contents(folder / "err")};
}

std::string printed_hash(const std::string& out) {
  const auto line = out.rfind("hash");
  if (line == std::string::npos) return {};
  const auto end = out.find('\n', line);
  const auto begin = out.rfind(' ', end);
  return out.substr(begin + 1, end - begin - 1);
}

}  // namespace millrace::tests
