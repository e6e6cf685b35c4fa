#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace::cluster {

/// What the kernel reports about this process and its host in files: /proc and the control groups below /sys/fs/cgroup, both of
/// version 1 and 2. Missing or unreadable files are no error: their content then counts as unknown.
class HostFiles {
 public:
  /// Reads below `root` as if it were the root folder: "" for the real files, a folder of synthetic files in tests.
  explicit HostFiles(std::string root) : root_(std::move(root)) {}
  /// Reads below the folder that MILLRACE_HOST_FILES names, or the real files if it is not set.
  static HostFiles of_this_host();

  /// The names of the entries of a folder, in any order; none if it cannot be read.
  [[nodiscard]] std::vector<std::string> entries(const std::string& path) const;
  /// The whole file; `path` begins with a slash.
  [[nodiscard]] std::optional<std::string> text(const std::string& path) const;
  /// The file's first word as a number; nothing if it is not a number ("max").
  [[nodiscard]] std::optional<std::uint64_t> number(const std::string& path) const;
  /// The number after `name` on a line that begins with it ("MemAvailable:"), in the file's unit; for files such as
  /// /proc/meminfo, /proc/self/status or a memory.stat.
  [[nodiscard]] std::optional<std::uint64_t> field(const std::string& path, const std::string& name) const;

  /// A hierarchy of control groups with this process's position in it.
  struct Groups {
    int version = 2;
    /// The visible folders of its group and of all groups above it, the innermost first.
    std::vector<std::string> folders;
  };
  /// The hierarchies that may limit by `controller` ("memory", "cpu"): version 1's own, and version 2's.
  [[nodiscard]] std::vector<Groups> groups(const std::string& controller) const;

  /// A number that is equal for all processes in the group of this folder, and different for others; 0 if it is not visible.
  [[nodiscard]] std::uint64_t identity(const std::string& folder) const;

 private:
  std::string root_;
};

}  // namespace millrace::cluster
