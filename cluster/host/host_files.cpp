#include "cluster/host/host_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace millrace::cluster {
namespace {

std::optional<std::uint64_t> number_of(const std::string& word) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

bool has_item(const std::string& list, const std::string& item) {
  std::istringstream items(list);
  for (std::string one; std::getline(items, one, ',');)
    if (one == item) return true;
  return false;
}

/// A mounted hierarchy: "31 23 0:28 ROOT POINT rw,relatime … - cgroup cgroup rw,memory".
struct Mount {
  std::string root, point, type, options;
};

std::vector<Mount> mounts_of(const std::string& mountinfo) {
  std::vector<Mount> mounts;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    Mount mount;
    std::string skipped;
    std::istringstream head(line.substr(0, dash)), tail(line.substr(dash + 3));
    if (head >> skipped >> skipped >> skipped >> mount.root >> mount.point && tail >> mount.type >> skipped >> mount.options)
      mounts.push_back(std::move(mount));
  }
  return mounts;
}

/// The folder of the group `path` and those above it, as far as the mount shows them. In a container the mount may begin at the
/// group itself, and a group outside of it has a path with "..": then only its own folder is visible.
std::vector<std::string> folders_of(const Mount& mount, std::string path) {
  if (mount.root != "/") {
    const bool below = path.starts_with(mount.root) && (path.size() == mount.root.size() || path[mount.root.size()] == '/');
    path = below ? path.substr(mount.root.size()) : "";
  }
  if (path.find("..") != std::string::npos) path.clear();
  while (path.ends_with('/')) path.pop_back();
  std::vector<std::string> folders;
  for (; !path.empty(); path.erase(path.rfind('/'))) folders.push_back(mount.point + path);
  folders.push_back(mount.point);
  return folders;
}

}  // namespace

HostFiles HostFiles::of_this_host() {
  const char* root = std::getenv("MILLRACE_HOST_FILES");
  return HostFiles(root == nullptr ? "" : root);
}

std::vector<std::string> HostFiles::entries(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root_ + path, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  return names;
}

std::optional<std::string> HostFiles::text(const std::string& path) const {
  std::ifstream stream(root_ + path);
  if (!stream) return std::nullopt;
  std::ostringstream text;
  text << stream.rdbuf();  // an iterator would throw for a file that can be opened but not read
  if (stream.bad() || text.bad()) return std::nullopt;
  return text.str();
}

std::optional<std::uint64_t> HostFiles::number(const std::string& path) const {
  std::istringstream words(text(path).value_or(""));
  std::string word;
  words >> word;
  return number_of(word);
}

std::optional<std::uint64_t> HostFiles::field(const std::string& path, const std::string& name) const {
  std::istringstream lines(text(path).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, second;
    if (words >> first >> second && first == name) return number_of(second);
  }
  return std::nullopt;
}

std::vector<HostFiles::Groups> HostFiles::groups(const std::string& controller) const {
  const auto mounts = mounts_of(text("/proc/self/mountinfo").value_or(""));
  std::vector<Groups> all;
  std::istringstream lines(text("/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {  // "4:memory:/a/b" of version 1, "0::/a/b" of version 2
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && !has_item(controllers, controller)) continue;
    const auto mount = std::find_if(mounts.begin(), mounts.end(), [&](const Mount& one) {
      return unified ? one.type == "cgroup2" : one.type == "cgroup" && has_item(one.options, controller);
    });
    if (mount != mounts.end()) all.push_back({unified ? 2 : 1, folders_of(*mount, line.substr(second + 1))});
  }
  return all;
}

std::uint64_t HostFiles::identity(const std::string& folder) const {
  struct stat status {};
  if (stat((root_ + folder).c_str(), &status) != 0) return 0;
  return (static_cast<std::uint64_t>(status.st_dev) << 48U) ^ static_cast<std::uint64_t>(status.st_ino);
}

}  // namespace millrace::cluster
