#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Diagnostics: what a person reads on stderr to understand a run. What a command was asked for (step lines, reports) is its output and
/// goes to stdout; what ends a command is its error (kernels/base/check.hpp). Formatting is spdlog's (log.cpp, its one door); writing is
/// the console's (console.hpp), so that a log call never waits for a reader.
namespace millrace::cluster {

enum class LogLevel : std::uint8_t { debug, info, warning, error, off };

/// The names that --log-level takes, by level.
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

/// Hands a diagnostic to process 0. False: it cannot be sent, and is printed here. Called on the thread that logs; must not log.
using LogForwarder = std::function<bool(const ForwardedLog&)>;

/// Processes other than 0: from now on lines without a source begin with `process_source` ("ranks 2-3"), and warnings and errors go to
/// `forwarder`. An empty forwarder ends that; when the call returns, the last one is not running any more.
void forward_log(std::string process_source, LogForwarder forwarder);

/// Process 0: prints what `process` forwarded. What several processes say alike is printed once: the n-th time that one of them says it is
/// printed if no process has said it n times before, this one included.
void log_forwarded(int process, const ForwardedLog& forwarded);

}  // namespace millrace::cluster
