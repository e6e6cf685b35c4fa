#include "actors/debug/line_reader.hpp"

#include <editline/readline.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "actors/debug/component.hpp"
#include "cluster/host/console.hpp"
#include "kernels/base/check.hpp"

namespace millrace::actors {
namespace {

constexpr const char* prompt = "(millrace) ";

// Globals, since libedit's callback is a plain function without a context; there is only one terminal.
std::function<std::vector<std::string>(const std::string&)> known_words;
std::vector<std::string> candidates;

char* next_candidate(const char* begun, int turn) {
  static std::size_t at = 0;
  if (turn == 0) at = 0;
  while (at < candidates.size()) {
    const auto& candidate = candidates[at++];
    if (candidate.starts_with(begun)) return ::strdup(candidate.c_str());
  }
  return nullptr;
}

char** complete(const char* begun, int start, int) {
  rl_attempted_completion_over = 1;
  candidates = known_words(std::string(rl_line_buffer, static_cast<std::size_t>(start)));
  return rl_completion_matches(begun, next_candidate);
}

}  // namespace

TerminalReader::TerminalReader(std::function<std::vector<std::string>(const std::string& before)> words) {
  known_words = std::move(words);
  rl_readline_name = "millrace";
  rl_attempted_completion_function = complete;
  rl_initialize();
  using_history();
  if (const char* home = std::getenv("HOME")) {
    history_ = std::string(home) + "/.millrace_history";
    read_history(history_.c_str());
  }
}

TerminalReader::~TerminalReader() {
  if (!history_.empty()) write_history(history_.c_str());
  known_words = nullptr;
}

std::optional<std::string> TerminalReader::next() {
  char* line = readline(prompt);
  if (line == nullptr) {
    fmt::print("\n");
    return std::nullopt;
  }
  std::string text(line);
  std::free(line);
  if (!text.empty()) add_history(text.c_str());
  return text;
}

std::size_t TerminalReader::width() const { return cluster::terminal_columns(STDOUT_FILENO); }

ScriptReader::ScriptReader(const std::string& path) : file_(path == "-" ? stdin : std::fopen(path.c_str(), "r")) {
  MILLRACE_CHECK(file_ != nullptr, ExitCode::usage, debugger, "--script {}: {}", path, std::strerror(errno));
}

ScriptReader::~ScriptReader() {
  if (file_ != stdin) std::fclose(file_);
}

std::optional<std::string> ScriptReader::next() {
  std::string line;
  int letter = 0;
  while ((letter = std::fgetc(file_)) != EOF && letter != '\n') line += static_cast<char>(letter);
  if (letter == EOF && line.empty()) return std::nullopt;
  if (!line.empty()) fmt::print("{}{}\n", prompt, line);
  return line;
}

}  // namespace millrace::actors
