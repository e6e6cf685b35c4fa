#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace millrace::actors {

/// Decides when a long evaluation shows how far it is, and what: on a terminal several times a second from its third second on, in a log
/// every ten seconds. A short one shows nothing. Plain state; the caller has the clock.
class LongEvaluation {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LongEvaluation(bool terminal) : terminal_(terminal) {}

  /// An evaluation of `microbatches` microbatches begins. 0: it is over.
  void begin(std::int64_t microbatches, Clock::time_point now);
  /// `done`: the microbatches that the first rank has finished; one that is less than before counts as that. Returns the text to show
  /// now, if any: "12 of 100 microbatches | 34s left", without an estimate while nothing is done.
  [[nodiscard]] std::optional<std::string> show(std::int64_t done, Clock::time_point now);

 private:
  bool terminal_;
  std::int64_t microbatches_ = 0, done_ = 0;
  Clock::time_point begun_, next_;
};

}  // namespace millrace::actors
