#pragma once

#include <sys/types.h>

namespace millrace::cluster {

/// Whether a debugger traces process `pid` of this host (0: this process). False if this cannot be determined.
bool is_traced(pid_t pid = 0);

}  // namespace millrace::cluster
