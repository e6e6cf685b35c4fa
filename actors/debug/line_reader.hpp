#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace millrace::actors {

/// Where a session's lines come from.
class LineReader {
 public:
  virtual ~LineReader() = default;
  /// Nothing at the end.
  [[nodiscard]] virtual std::optional<std::string> next() = 0;
  /// Whether a person types: an error then asks for the next line, and does not end the session.
  [[nodiscard]] virtual bool interactive() const { return false; }
};

/// A terminal with editing, history (~/.millrace_history) and completion of the last word from what `words(before)` knows to follow.
class TerminalReader final : public LineReader {
 public:
  explicit TerminalReader(std::function<std::vector<std::string>(const std::string& before)> words);
  ~TerminalReader() override;
  std::optional<std::string> next() override;
  bool interactive() const override { return true; }

 private:
  std::string history_;
};

/// A file or a pipe, each line printed before it is carried out.
class ScriptReader final : public LineReader {
 public:
  /// Throws Error(usage) where the file cannot be read. "-": standard input.
  explicit ScriptReader(const std::string& path);
  ~ScriptReader() override;
  std::optional<std::string> next() override;

 private:
  std::FILE* file_;
};

}  // namespace millrace::actors
