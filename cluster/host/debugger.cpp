#include "cluster/host/debugger.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace millrace::cluster {

bool is_traced(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, pid == 0 ? "/proc/self/status" : "/proc/%d/status", static_cast<int>(pid));
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  char text[2048];  // read in one call, on the stack, since it is called at every heartbeat
  const ssize_t length = read(descriptor, text, sizeof text - 1);
  close(descriptor);
  if (length <= 0) return false;
  text[length] = '\0';
  const char* line = std::strstr(text, "TracerPid:");
  return line != nullptr && std::atoi(line + std::strlen("TracerPid:")) != 0;
}

}  // namespace millrace::cluster
