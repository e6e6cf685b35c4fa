#include "tools/commands/progress_bar.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/units.hpp"

namespace millrace::tools {

ProgressBar::ProgressBar(std::uint64_t total) : total_(total), terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

double ProgressBar::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void ProgressBar::show(std::uint64_t done) {
  const auto now = Clock::now();
  if (now - shown_ < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10000))) return;
  shown_ = now;
  const std::string text = progress_text(done, total_, seconds());
  if (!terminal_) {
    fmt::print(stderr, "{}\n", text);
    return;
  }
  constexpr std::uint64_t cells = 30;
  const auto full = static_cast<std::size_t>(total_ == 0 ? cells : std::min(cells, done * cells / total_));
  fmt::print(stderr, "\r[{}{}] {}\033[K", std::string(full, '#'), std::string(cells - full, '.'), text);
  std::fflush(stderr);
  drawn_ = true;
}

std::string progress_text(std::uint64_t done, std::uint64_t total, double seconds) {
  const std::uint64_t percent = total == 0 ? 100 : std::min<std::uint64_t>(100, done * 100 / total);
  std::string text = fmt::format("{}% of {}", percent, runtime::bytes_text(total));
  if (done == 0 || seconds <= 0) return text;
  const double rate = static_cast<double>(done) / seconds;
  const double left = static_cast<double>(total > done ? total - done : 0) / rate;
  return text + fmt::format(" | {:.1f} MB/s | {} left", rate / 1e6, runtime::duration_text(left));
}

}  // namespace millrace::tools
