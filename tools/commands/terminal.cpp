#include "tools/commands/terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace millrace::tools {

bool watched(const cluster::Launch& launch, int descriptor) {
  if (!launch.under_mpirun) return isatty(descriptor) != 0;
  std::error_code error;
  const auto output = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", getppid(), descriptor), error).string();
  return !error && (output.starts_with("/dev/pts/") || output.starts_with("/dev/tty"));
}

void ProgressLine::show(std::string_view text) {
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || (there_ && now - newest_ < std::chrono::milliseconds(100))) return;
  newest_ = now;
  there_ = true;
  fmt::print(stderr, "\r{}\x1b[K", text);
  std::fflush(stderr);
}

void ProgressLine::wipe() {
  if (!there_) return;
  there_ = false;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

}  // namespace millrace::tools
