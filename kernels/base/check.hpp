#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace millrace {

/// Exit codes of a process. docs/errors.md describes what each means for a script.
enum class ExitCode : int {
  ok = 0,
  difference = 1,  // a check that was asked for found a difference (parity, ckpt verify)
  usage = 2,       // the command line
  config = 3,      // the run description, or a plan that is not possible
  data = 4,        // token or text files
  model = 5,       // config.json, model.safetensors
  checkpoint = 6,  // no usable checkpoint, or an identity key changed on resume
  storage = 7,     // disk full, I/O error, no permission
  memory = 8,      // the plan does not fit
  numerics = 9,    // a loss or norm that is not finite
  peer_lost = 10,  // another process died or stopped responding
  start = 11,      // the processes could not agree before the first step
  device = 12,     // a GPU failed while it computed
  internal = 70,   // a bug in Millrace
};

/// An error caused by bad input or by a bug. The message reads "[component] what was found, what was expected".
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// Throws Error(code, "[component] message").
template <class... Arguments>
[[noreturn]] void fail(ExitCode code, const char* component, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw Error(code, fmt::format("[{}] {}", component, fmt::format(format, std::forward<Arguments>(arguments)...)));
}

}  // namespace millrace

/// MILLRACE_CHECK(rows > 0, ExitCode::config, "configs.load", "train.batch = {}, expected 1 or more", rows);
#define MILLRACE_CHECK(condition, code, component, ...)                   \
  do {                                                                    \
    if (!(condition)) ::millrace::fail((code), (component), __VA_ARGS__); \
  } while (false)
