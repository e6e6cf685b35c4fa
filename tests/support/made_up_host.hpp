#pragma once

#include <string>

#include "tests/support/temporary_folder.hpp"

namespace millrace::tests {

/// Folders with the files of /proc and /sys of an invented host, for HostFiles and, by MILLRACE_HOST_FILES, for the built
/// command.
class MadeUpHost {
 public:
  /// A host with a single machine, without control groups.
  explicit MadeUpHost(const std::string& available_kibibytes = "67108864") {
    write("/proc/meminfo", "MemTotal:       99999999 kB\nMemFree:        1 kB\nMemAvailable:   " + available_kibibytes + " kB\n");
    write("/proc/sys/kernel/random/boot_id", "6f0a\n");
  }
  void write(const std::string& path, const std::string& text) const { folder_.write(path.substr(1), text); }

  /// Puts this process into `group` of version 2's single hierarchy.
  void stand_in(const std::string& group, const std::string& mount_root = "/") const {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo", "30 23 0:26 " + mount_root + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  /// Puts this process into `group` of version 1's memory and cpu hierarchies.
  void stand_in_v1(const std::string& group, const std::string& mount_root = "/") const {
    write("/proc/self/cgroup", "12:pids:/elsewhere\n5:cpu,cpuacct:" + group + "\n4:memory:" + group + "\n1:name=systemd:/\n");
    write("/proc/self/mountinfo", "31 30 0:27 " + mount_root +
                                      " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n35 30 0:32 " + mount_root +
                                      " /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n");
  }

  [[nodiscard]] std::string root() const { return folder_.path().string(); }
  /// The environment variable, to be placed before a command.
  [[nodiscard]] std::string variable() const { return "MILLRACE_HOST_FILES=" + root(); }

 private:
  TemporaryFolder folder_;
};

}  // namespace millrace::tests
