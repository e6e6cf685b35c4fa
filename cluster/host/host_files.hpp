#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace::cluster {

/// What the kernel says of this process and its host in files: /proc and the control groups below /sys/fs/cgroup, both of version 1 and 2.
/// Files that are missing or unreadable are no error: what they would have said is then not known.
class HostFiles {
 public:
  /// Reads below `root` as if that were the root folder: "" in earnest, a folder of made-up files in tests.
  explicit HostFiles(std::string root) : root_(std::move(root)) {}
  /// Below the folder that MILLRACE_HOST_FILES names, or in earnest where that is not set.
  static HostFiles of_this_host();

  /// The whole file; `path` begins with a slash.
  [[nodiscard]] std::optional<std::string> text(const std::string& path) const;
  /// The file's first word as a number; nothing for other words ("max").
  [[nodiscard]] std::optional<std::uint64_t> number(const std::string& path) const;
  /// The number behind `name` on a line that begins with it ("MemAvailable:"), as it stands there; lines are of /proc/meminfo,
  /// /proc/self/status or a memory.stat.
  [[nodiscard]] std::optional<std::uint64_t> field(const std::string& path, const std::string& name) const;

  /// A hierarchy of control groups as this process stands in it.
  struct Groups {
    int version = 2;
    /// The folders of its group and of all groups above it that can be seen, the innermost first.
    std::vector<std::string> folders;
  };
  /// The hierarchies that may limit by `controller` ("memory", "cpu"): version 1's own, and version 2's.
  [[nodiscard]] std::vector<Groups> groups(const std::string& controller) const;

  /// The same number for all processes that stand in the group of this folder, another for others; 0 where it cannot be seen.
  [[nodiscard]] std::uint64_t identity(const std::string& folder) const;

 private:
  std::string root_;
};

}  // namespace millrace::cluster
