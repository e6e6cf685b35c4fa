#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace millrace::tools {

/// How far a long job over bytes is, on stderr: a bar that is drawn again several times a second on a terminal, else a line every ten
/// seconds. Belongs to one thread.
class ProgressBar {
 public:
  /// `total` bytes are to be done.
  explicit ProgressBar(std::uint64_t total);
  /// Takes the bar off the terminal.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(std::uint64_t done);
  [[nodiscard]] double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::uint64_t total_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
};

/// "41% of 1.5 GiB | 22.4 MB/s | 38s left" after so many seconds; without an estimate while nothing is done.
[[nodiscard]] std::string progress_text(std::uint64_t done, std::uint64_t total, double seconds);

}  // namespace millrace::tools
