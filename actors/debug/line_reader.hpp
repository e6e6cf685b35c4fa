#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace millrace::actors {

/// The source of a session's lines.
class LineReader {
 public:
  virtual ~LineReader() = default;
  /// The next line; nothing at the end.
  [[nodiscard]] virtual std::optional<std::string> next() = 0;
  /// Whether a user is typing: an error then leads to the next prompt instead of ending the session.
  [[nodiscard]] virtual bool interactive() const { return false; }
  /// The number of characters of a line of the output; 0: no limit.
  [[nodiscard]] virtual std::size_t width() const { return 0; }
};

/// A terminal with editing, history (~/.millrace_history), and completion of the last word by `words(before)`.
class TerminalReader final : public LineReader {
 public:
  explicit TerminalReader(std::function<std::vector<std::string>(const std::string& before)> words);
  ~TerminalReader() override;
  std::optional<std::string> next() override;
  bool interactive() const override { return true; }
  std::size_t width() const override;

 private:
  std::string history_;
};

/// A file or a pipe; each line is printed before it is executed.
class ScriptReader final : public LineReader {
 public:
  /// Throws Error(usage) if the file cannot be read. "-" is standard input.
  explicit ScriptReader(const std::string& path);
  ~ScriptReader() override;
  std::optional<std::string> next() override;

 private:
  std::FILE* file_;
};

}  // namespace millrace::actors
