#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "kernels/base/check.hpp"

namespace millrace::cluster {

/// Writes all of `text` to a descriptor that may be a terminal, a pipe or a file, and never waits for a reader without asking `give_up` ten
/// times a second whether to stop. Returns 0, the errno of the write that failed, or ETIMEDOUT when it gave up. SIGPIPE must be ignored or
/// blocked by the caller.
int write_text(int descriptor, std::string_view text, const std::function<bool()>& give_up);

/// Writes lines to a descriptor on a thread of its own, which begins with the first line. Whoever prints never waits: what is printed while
/// `limit` bytes wait for a reader is dropped, and the number of dropped lines is printed when the reader has caught up.
class TextWriter {
 public:
  /// `failed` is called once, on the writer's thread, with the errno of the first write that failed. Later texts are still tried.
  explicit TextWriter(int descriptor, std::size_t limit = default_limit, std::function<void(int error)> failed = {});
  /// A text waits a moment for those that `first` has before it.
  TextWriter(int descriptor, TextWriter& first);
  /// Gives up what has not been written. Takes up to a tenth of a second when the reader is blocked.
  ~TextWriter();
  TextWriter(const TextWriter&) = delete;
  TextWriter& operator=(const TextWriter&) = delete;

  /// Any thread, never blocks.
  void put(std::string text);
  /// Waits until everything is written or has failed. False when `limit` was over before.
  bool drain(std::chrono::milliseconds limit);
  /// The errno of the first write that failed; 0: none has.
  [[nodiscard]] int error() const;

  static constexpr std::size_t default_limit = std::size_t{1} << 20;

 private:
  void run();
  void write(const std::string& text);
  [[nodiscard]] bool ends() const;

  const int descriptor_;
  const std::size_t limit_;
  const std::function<void(int)> failed_;
  TextWriter* const first_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> queue_;
  std::size_t queued_bytes_ = 0, dropped_ = 0;
  int error_ = 0;
  bool writing_ = false, ends_ = false;
  std::thread thread_;
};

/// stdout and stderr of a process whose work must not wait for whoever reads them: a terminal that is stopped, a pipe into a pager. Each
/// has its own thread; a line for stderr waits a moment for the lines for stdout before it.
class Console {
 public:
  Console();
  TextWriter out, err;
};

/// The one of this process. It is never destroyed: threads print while main() returns.
Console& console();
/// Waits until both streams are written, each for at most `limit`. Nothing where console() was never used.
bool drain_console(std::chrono::milliseconds limit);
/// The errno of the first write to stdout by the console that failed; 0: none has.
int console_error();

/// What a process ends with that an exception of no kind of ours ends: ExitCode::storage when it is fmt::print's about a standard stream
/// that cannot be written, else ExitCode::internal.
[[nodiscard]] ExitCode exit_code_of(const std::exception& error);

}  // namespace millrace::cluster
