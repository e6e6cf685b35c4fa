#include "tools/commands/terminal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "cluster/host/console.hpp"

namespace millrace::tools {

namespace {

/// Where mpirun's output goes.
std::string output_of_mpirun(int descriptor) { return fmt::format("/proc/{}/fd/{}", getppid(), descriptor); }

}  // namespace

bool watched(const cluster::Launch& launch, int descriptor) {
  if (!launch.under_mpirun) return isatty(descriptor) != 0;
  std::error_code error;
  const auto output = std::filesystem::read_symlink(output_of_mpirun(descriptor), error).string();
  return !error && (output.starts_with("/dev/pts/") || output.starts_with("/dev/tty"));
}

std::size_t terminal_columns(const cluster::Launch& launch, int descriptor) {
  const int opened = launch.under_mpirun ? open(output_of_mpirun(descriptor).c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK) : -1;
  const std::size_t columns = cluster::terminal_columns(launch.under_mpirun ? opened : descriptor);
  if (opened >= 0) close(opened);
  return columns > 0 ? columns : 80;
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
