#pragma once

#include <exception>
#include <string>

#include "kernels/base/check.hpp"

namespace millrace {

/// `error` as an Error. An Error stays what it is. Memory (std::bad_alloc, ENOMEM) or a thread (std::system_error with EAGAIN) that the
/// system refused has code memory, and its message names the limits of this process that may be the reason. Everything else has code
/// internal and its own text. `component`: what was running.
[[nodiscard]] Error as_error(const std::exception& error, const char* component);

/// The error of a thread that the system refused, such as "thread 2 of 4", with the limits that may be the reason.
[[nodiscard]] Error refused_thread(const std::string& which, const char* component);

/// Throws Error(memory) unless this process can run `threads` more threads at once, each of which allocates 1 MiB. It starts them and
/// lets them end. For libraries that end the process, or wait for ever, if one of their threads is refused. `user`: whose threads they
/// are, such as "the actor system".
void check_threads_start(int threads, const char* component, const char* user);

}  // namespace millrace
