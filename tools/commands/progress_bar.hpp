#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace millrace::tools {

/// Shows the progress of a long job over bytes on stderr: on a terminal as a bar that is redrawn several times a second, else as
/// one line every ten seconds. Belongs to one thread.
class ProgressBar {
 public:
  /// `total` is the number of bytes of the job.
  explicit ProgressBar(std::uint64_t total);
  /// Erases the bar from the terminal.
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

/// Formats the progress after `seconds` seconds, such as "41% of 1.5 GiB | 22.4 MB/s | 38s left". There is no estimate while
/// nothing is done.
[[nodiscard]] std::string progress_text(std::uint64_t done, std::uint64_t total, double seconds);

}  // namespace millrace::tools
