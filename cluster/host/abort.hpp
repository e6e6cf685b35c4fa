#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "kernels/base/check.hpp"

namespace millrace::cluster {

/// Registers a function that abort_job runs before the process exits, for example to flush a log. It must be short, and must not
/// need other threads' locks or MPI. Hooks run in the order of registration and together have at least 0.2 s.
void add_abort_hook(std::function<void()> hook);

/// The only way to exit when the job cannot continue. The first caller wins (others block until the process ends): it writes the
/// console's remaining output and then `message` and a newline to stderr, runs the hooks and exits by _exit(code). This takes at
/// most 0.6 s, whatever the hooks do and even if stderr is not read: the timer that ends the process is started first. MPI is not
/// finalized, since a call that involves a dead peer never returns. If `speak` is false, another process prints the message
/// (hooks can read it with abort_message()).
///
/// Which process prints the error after a peer failure: process 0. If process 0 failed, the lowest survivor or, with several
/// hosts, the first process of each, since it is unknown which processes failed with it. mpirun then adds its own message:
/// "mpirun noticed that process rank 1 with PID … exited on signal 9 (Killed)" or "… Primary job terminated normally, but 1
/// process returned a non-zero exit code"; mpirun's status is that of the process that ended first (137 if it was killed). mpirun
/// sends SIGTERM 1 s after the first death: by then the survivors have exited with their own code.
[[noreturn]] void abort_job(ExitCode code, std::string_view message, bool speak = true);

/// The message of the winning abort_job; empty before.
std::string_view abort_message();

}  // namespace millrace::cluster
