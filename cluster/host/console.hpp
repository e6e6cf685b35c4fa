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

/// Writes all of `text` to a descriptor that may be a terminal, a pipe or a file. While it waits for a reader, it asks `give_up`
/// ten times per second whether to stop. Returns 0, the errno of a failed write, or ETIMEDOUT if it gave up. The caller must
/// ignore or block SIGPIPE.
int write_text(int descriptor, std::string_view text, const std::function<bool()>& give_up);

/// The width of the terminal behind a descriptor, as it is now; 0 if it is no terminal or does not say.
[[nodiscard]] std::size_t terminal_columns(int descriptor) noexcept;

/// Writes lines to a descriptor on a thread of its own, which starts with the first line. A caller never waits: text that is
/// printed while `limit` bytes are pending is dropped, and the number of dropped lines is printed once the reader has caught up.
class TextWriter {
 public:
  /// `failed` is called once, on the writer's thread, with the errno of the first failed write. Later texts are still tried.
  explicit TextWriter(int descriptor, std::size_t limit = default_limit, std::function<void(int error)> failed = {});
  /// A text waits briefly for the earlier texts of `first`.
  TextWriter(int descriptor, TextWriter& first);
  /// Discards what has not been written. Takes up to a tenth of a second if the reader is blocked.
  ~TextWriter();
  TextWriter(const TextWriter&) = delete;
  TextWriter& operator=(const TextWriter&) = delete;

  /// Any thread, never blocks.
  void put(std::string text);
  /// Waits until everything is written or has failed. Returns false if `limit` passed first.
  bool drain(std::chrono::milliseconds limit);
  /// The errno of the first failed write; 0 if there was none.
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

/// stdout and stderr of a process whose work must not wait for their readers, such as a stopped terminal or a pager. Each has its
/// own thread; a line for stderr waits briefly for earlier lines for stdout.
class Console {
 public:
  Console();
  TextWriter out, err;
};

/// The console of this process. It is never destroyed, since threads may print while main() returns.
Console& console();
/// Waits until both streams are written, at most `limit` for each. Does nothing if console() was never used.
bool drain_console(std::chrono::milliseconds limit);
/// The errno of the first failed write to stdout by the console; 0 if there was none.
int console_error();

/// What as_error() makes of `error`; code storage if fmt::print could not write to a standard stream.
[[nodiscard]] Error error_of(const std::exception& error, const char* component);

}  // namespace millrace::cluster
