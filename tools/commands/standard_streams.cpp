#include "tools/commands/standard_streams.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <string>

#include "cluster/host/console.hpp"
#include "kernels/base/check.hpp"

namespace millrace::tools {
namespace {

/// The time limit for remaining lines; a training run has waited for its own already.
constexpr auto console_limit = std::chrono::seconds(1);

bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF; }

}  // namespace

void prepare_streams() {
  // In this order: open() takes the lowest descriptor that is free.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (!is_open(descriptor)) static_cast<void>(::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY));
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);
}

int finish_streams(int code) {
  cluster::drain_console(console_limit);
  errno = 0;
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  std::string reason = errno != 0 ? std::strerror(errno) : "a write failed";
  if (const int error = cluster::console_error(); !lost && error != 0) {
    if (error == EPIPE) return code;
    reason = std::strerror(error);
  } else if (!lost) {
    return code;
  }
  std::fputs(fmt::format("[millrace] stdout cannot be written: {}. What the command printed there is incomplete\n", reason).c_str(),
             stderr);
  return code == 0 ? static_cast<int>(ExitCode::storage) : code;
}

}  // namespace millrace::tools
