#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Diagnostics: messages on stderr for a user who wants to understand a run. The requested result of a command (step lines,
/// reports) goes to stdout instead, and a failure that ends a command is an Error (kernels/base/check.hpp). spdlog formats
/// diagnostics (only log.cpp includes it) and the console writes them (console.hpp), so that a log call never waits for a reader.
namespace millrace::cluster {

enum class LogLevel : std::uint8_t { debug, info, warning, error, off };

/// The names that --log-level accepts, by level.
[[nodiscard]] const std::vector<std::string>& log_level_names();
/// Throws Error(usage), naming the nearest level, for any other name; `origin` says where it was given: "--log-level".
[[nodiscard]] LogLevel parse_log_level(const std::string& name, const char* origin);

/// Diagnostics below `level` are dropped. `info` before the first call. With `debug` each line begins with the time. Any thread.
void set_log_level(LogLevel level);
[[nodiscard]] bool is_logged(LogLevel level) noexcept;

/// The part of the job that a diagnostic is about. Fields of −1 are left out.
struct LogSource {
  int stage = -1;
  int rank = -1;
};

/// Writes "warning: [stage 2 rank 5] message". Any thread; never blocks. Lines that are not read are dropped and counted.
void log(LogLevel level, const LogSource& source, std::string_view message);

/// The same, formatted only if the level is printed.
template <class... Args>
void log_debug(const LogSource& source, fmt::format_string<Args...> format, Args&&... arguments) {
  if (is_logged(LogLevel::debug)) log(LogLevel::debug, source, fmt::format(format, std::forward<Args>(arguments)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... arguments) {
  if (is_logged(LogLevel::info)) log(LogLevel::info, {}, fmt::format(format, std::forward<Args>(arguments)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... arguments) {
  if (is_logged(LogLevel::warning)) log(LogLevel::warning, {}, fmt::format(format, std::forward<Args>(arguments)...));
}

/// A diagnostic on its way to process 0.
struct ForwardedLog {
  LogLevel level = LogLevel::warning;
  std::string source;  // "stage 2 rank 5"
  std::string message;
};

/// Sends a diagnostic to process 0. Returns false if it cannot be sent; the diagnostic is then printed by this process. Called on
/// the thread that logs; must not log.
using LogForwarder = std::function<bool(const ForwardedLog&)>;

/// For processes other than 0: from now on lines without a source begin with `process_source` ("ranks 2-3"), and warnings and
/// errors are passed to `forwarder`. An empty forwarder ends this; when the call returns, no earlier forwarder is running any more.
void forward_log(std::string process_source, LogForwarder forwarder);

/// For process 0: prints a diagnostic that `process` forwarded. A message that several processes send is printed once: the n-th
/// occurrence from one process is printed only if no process, including this one, has sent it n times before.
void log_forwarded(int process, const ForwardedLog& forwarded);

}  // namespace millrace::cluster
