// Diagnostics by spdlog. No other file includes spdlog.

#include "cluster/host/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "cluster/host/console.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"

namespace millrace::cluster {
namespace {

constexpr std::size_t max_repeats_known = 1024;

/// Uses the console's queue instead of spdlog's asynchronous logger: that logger's thread blocks in write() if stderr is not read, and
/// the end of the process waits for it.
class ConsoleSink final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    console().err.put(fmt::to_string(line));
  }
  void flush_() override {}
};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

/// The messages that were printed so far, so that a message that several processes send is printed once.
class Repeats {
 public:
  /// Whether to print this message: yes if no process has sent it this many times before.
  bool is_new(int process, std::string_view message) {
    const auto found = said_.find(message);
    if (found == said_.end() && said_.size() >= max_repeats_known) return true;
    auto& said = found != said_.end() ? found->second : said_.emplace(message, Said{}).first->second;
    const int times = ++said.times_by_process[process];
    if (times <= said.printed) return false;
    said.printed = times;
    return true;
  }

 private:
  struct Said {
    int printed = 0;
    std::map<int, int> times_by_process;
  };
  std::map<std::string, Said, std::less<>> said_;
};

class Log {
 public:
  Log() : logger_("millrace", std::make_shared<ConsoleSink>()) { set_level(LogLevel::info); }

  void set_level(LogLevel level) {
    // Only debug output has the time: its lines are many, while a single warning is usually read as it appears.
    logger_.set_pattern(level == LogLevel::debug ? "%H:%M:%S.%e %l: %v" : "%l: %v");
    logger_.set_level(spdlog_level(level));
  }

  [[nodiscard]] bool is_logged(LogLevel level) const noexcept { return level != LogLevel::off && logger_.should_log(spdlog_level(level)); }

  void write(LogLevel level, const std::string& source, std::string_view message) {
    logger_.log(spdlog_level(level), "{}{}", source.empty() ? "" : fmt::format("[{}] ", source), message);
  }

  void log(LogLevel level, std::string source, std::string_view message) {
    const std::lock_guard lock(mutex_);
    if (source.empty()) source = process_source_;
    if (forwarder_ && level >= LogLevel::warning) {
      const ForwardedLog forwarded{level, source, std::string(message)};
      if (forwarder_(forwarded)) return;
    } else if (level >= LogLevel::warning && !repeats_.is_new(0, message)) {
      return;
    }
    write(level, source, message);
  }

  void forward(std::string process_source, LogForwarder forwarder) {
    const std::lock_guard lock(mutex_);
    process_source_ = std::move(process_source);
    forwarder_ = std::move(forwarder);
  }

  void log_forwarded(int process, const ForwardedLog& forwarded) {
    const std::lock_guard lock(mutex_);
    if (repeats_.is_new(process, forwarded.message)) write(forwarded.level, forwarded.source, forwarded.message);
  }

 private:
  spdlog::logger logger_;
  std::mutex mutex_;  // guards what follows
  std::string process_source_;
  LogForwarder forwarder_;
  Repeats repeats_;
};

/// Never destroyed, as the console: threads log while main() returns.
Log& the_log() {
  static auto* const one = new Log;
  return *one;
}

}  // namespace

const std::vector<std::string>& log_level_names() {
  static const std::vector<std::string> names{"debug", "info", "warning", "error", "off"};
  return names;
}

LogLevel parse_log_level(const std::string& name, const char* origin) {
  const auto& names = log_level_names();
  const auto found = std::ranges::find(names, name);
  MILLRACE_CHECK(found != names.end(), ExitCode::usage, "millrace", "{} = {}, expected {}{}", origin, name, fmt::join(names, ", "),
                 did_you_mean(name, names));
  return static_cast<LogLevel>(found - names.begin());
}

void set_log_level(LogLevel level) { the_log().set_level(level); }

bool is_logged(LogLevel level) noexcept { return the_log().is_logged(level); }

void log(LogLevel level, const LogSource& source, std::string_view message) {
  if (!is_logged(level)) return;
  std::string text = source.stage >= 0 ? fmt::format("stage {}", source.stage) : "";
  if (source.rank >= 0) text += fmt::format("{}rank {}", text.empty() ? "" : " ", source.rank);
  the_log().log(level, std::move(text), message);
}

void forward_log(std::string process_source, LogForwarder forwarder) { the_log().forward(std::move(process_source), std::move(forwarder)); }

void log_forwarded(int process, const ForwardedLog& forwarded) {
  if (is_logged(forwarded.level)) the_log().log_forwarded(process, forwarded);
}

}  // namespace millrace::cluster
