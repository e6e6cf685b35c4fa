#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "kernels/base/check.hpp"

namespace millrace::cluster {

/// Runs in abort_job before the process leaves: seal a trace ring, flush a log. Short, must not need other threads' locks or MPI.
/// Hooks run in the order of registration; all together have 0.2 s at least.
void add_abort_hook(std::function<void()> hook);

/// The one way out when the job cannot go on: the first caller wins (others wait for the end in here), writes what the console still has
/// and then `message` and a newline to stderr, runs the hooks and leaves by _exit(code), within 0.6 s whatever the hooks do and whether or
/// not somebody reads stderr: the timer that ends the process is started first. MPI is not finalized: a call that involves a dead peer
/// never returns. `speak` false: the message is left to another process (hooks see it by abort_message()).
///
/// Who speaks when a process is lost: process 0; if that is the lost one, the lowest survivor, or of several hosts the first process
/// of each, since nobody knows who is lost with it. Under mpirun, its own words follow: "mpirun noticed that process rank 1 with PID …
/// exited on signal 9 (Killed)" or "… Primary job terminated normally, but 1 process returned a non-zero exit code"; mpirun's status is
/// that of the process which ended first (137 for one killed). mpirun sends SIGTERM 1 s after the first death: by then the survivors have
/// left with a code of their own.
[[noreturn]] void abort_job(ExitCode code, std::string_view message, bool speak = true);

/// What the winning abort_job was told; empty before.
std::string_view abort_message();

}  // namespace millrace::cluster
