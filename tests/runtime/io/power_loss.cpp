#include "tests/runtime/io/power_loss.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "runtime/io/file_system.hpp"
#include "tests/runtime/io/scratch.hpp"

namespace millrace::runtime::testing {
namespace {

namespace fs = std::filesystem;

/// Thrown out of the seam at the call at which the machine stops. Not an Error, so that none of our code handles it.
struct Stop {};

std::string plain(const std::string& path) { return fs::path(path).lexically_normal().string(); }

}  // namespace

PowerLossDisk::PowerLossDisk(std::string root) : root_(plain(root)) { add_folder(root_); }

int PowerLossDisk::add_folder(const std::string& path) {
  const auto index = static_cast<int>(nodes_.size());
  nodes_.push_back({true, {}, {}, {}, {}});
  for (const auto& entry : fs::directory_iterator(path)) {
    int child = static_cast<int>(nodes_.size());
    if (entry.is_directory()) {
      child = add_folder(entry.path().string());
    } else {
      nodes_.push_back({false, {}, {}, slurp(entry.path().string()), {}});
    }
    auto& names = nodes_[static_cast<std::size_t>(index)].names;
    names[entry.path().filename().string()] = child;
    nodes_[static_cast<std::size_t>(index)].safe_names = names;
  }
  return index;
}

bool PowerLossDisk::run_until(std::uint64_t call, const std::function<void()>& action) {
  set_file_hook([this, call](const FileCall& seen) { return see(seen, call); });
  bool stopped = false;
  try {
    action();
  } catch (const Stop&) {
    stopped = true;
  }
  set_file_hook({});
  settle();
  return stopped;
}

FileFault PowerLossDisk::see(const FileCall& call, std::uint64_t last_call) {
  settle();
  if (call.number == last_call) throw Stop{};
  operation_ = call.operation;
  path_ = plain(std::string(call.path));
  target_ = plain(std::string(call.target));
  was_there_ = node_at(path_) >= 0;
  if (call.operation == FileOperation::unlink) remember_bytes(path_);
  if (call.operation == FileOperation::rename) remember_bytes(target_);
  return FileFault::none;
}

/// Applies the effect of the previous call, now that it is done.
void PowerLossDisk::settle() {
  if (!operation_) return;
  const auto operation = *std::exchange(operation_, std::nullopt);
  const auto at = find(path_);
  changed_ = at.known() && operation != FileOperation::open && operation != FileOperation::read && operation != FileOperation::list &&
             operation != FileOperation::space && operation != FileOperation::lock && operation != FileOperation::drop_cache;
  const auto node = node_at(path_);
  if (operation == FileOperation::sync_directory && node >= 0) {
    std::erase_if(changes_, [&](const Change& change) { return change.folder == node; });
    nodes_[static_cast<std::size_t>(node)].safe_names = nodes_[static_cast<std::size_t>(node)].names;
    changed_ = true;
  }
  if (!at.known()) return;
  const bool is_there = kind_of(path_) != PathKind::missing;
  if ((operation == FileOperation::create || operation == FileOperation::make_directory) && !was_there_ && is_there) {
    nodes_.push_back({operation == FileOperation::make_directory, {}, {}, {}, {}});
    change(at.folder, at.name, static_cast<int>(nodes_.size()) - 1, "");
  }
  if (operation == FileOperation::sync && node >= 0) nodes_[static_cast<std::size_t>(node)].safe = slurp(path_);
  if (operation == FileOperation::rename && node >= 0 && !is_there) {
    const auto to = find(target_);
    EXPECT_EQ(to.folder, at.folder) << "a rename between folders: " << path_ << " to " << target_;
    change(at.folder, to.name, node, at.name);
  }
  if ((operation == FileOperation::unlink || operation == FileOperation::remove_directory) && node >= 0 && !is_there)
    change(at.folder, "", -1, at.name);
}

void PowerLossDisk::change(int folder, std::string added, int node, std::string removed) {
  auto& names = nodes_[static_cast<std::size_t>(folder)].names;
  if (!removed.empty()) names.erase(removed);
  if (!added.empty()) names[added] = node;
  changes_.push_back({folder, std::move(added), node, std::move(removed)});
}

PowerLossDisk::Place PowerLossDisk::find(const std::string& path) const {
  if (!path.starts_with(root_ + "/")) return {};
  const auto parent = node_at(parent_path(path));
  return {parent, path.substr(path.rfind('/') + 1)};
}

int PowerLossDisk::node_at(const std::string& path) const {
  if (path == root_) return 0;
  const auto place = find(path);
  if (!place.known()) return -1;
  const auto& names = nodes_[static_cast<std::size_t>(place.folder)].names;
  const auto found = names.find(place.name);
  return found == names.end() ? -1 : found->second;
}

void PowerLossDisk::remember_bytes(const std::string& path) {
  const auto node = node_at(path);
  if (node >= 0 && !nodes_[static_cast<std::size_t>(node)].is_folder) nodes_[static_cast<std::size_t>(node)].last = slurp(path);
}

/// The current path of each node that has a name.
std::map<int, std::string> PowerLossDisk::live_paths() const {
  std::map<int, std::string> paths{{0, root_}};
  std::vector<int> open{0};
  while (!open.empty()) {
    const auto folder = open.back();
    open.pop_back();
    for (const auto& [name, node] : nodes_[static_cast<std::size_t>(folder)].names) {
      paths[node] = paths[folder] + "/" + name;
      if (nodes_[static_cast<std::size_t>(node)].is_folder) open.push_back(node);
    }
  }
  return paths;
}

std::size_t PowerLossDisk::for_each_state(States states, const std::string& place,
                                          const std::function<void(const std::string& what)>& look) {
  const auto count = changes_.size();
  const std::vector<bool> all(count, true), none(count, false);
  std::set<std::vector<bool>> kept{all, none};
  if (states == States::all) {
    for (std::size_t index = 0; index < count; ++index) {
      auto one = none;
      one[index] = true;
      kept.insert(one);
      one.flip();
      kept.insert(one);
    }
  }
  // The bytes of all nodes that a name may refer to, once each.
  const auto paths = live_paths();
  for (const auto& [node, path] : paths)
    if (!nodes_[static_cast<std::size_t>(node)].is_folder) nodes_[static_cast<std::size_t>(node)].last = slurp(path);
  std::set<std::map<std::string, std::string>> seen;
  std::size_t shown = 0;
  for (const auto& choice : kept) {
    for (const auto bytes : {Bytes::written, Bytes::lost, Bytes::torn, Bytes::zeroed}) {
      const bool extreme = (choice == all && bytes == Bytes::written) || (choice == none && bytes == Bytes::lost);
      const bool is_end = choice == all || choice == none;
      if (states == States::extremes ? !extreme : !is_end && bytes != Bytes::written && bytes != Bytes::lost) continue;
      std::map<std::string, std::string> files;
      collect(0, "", choice, bytes, files);
      if (!seen.insert(files).second) continue;
      fs::remove_all(place);
      fs::create_directories(place);
      for (const auto& [name, content] : files) {
        if (name.ends_with('/')) {
          fs::create_directories(place + name);
        } else {
          spill(place + name, content);
        }
      }
      ++shown;
      std::string what = bytes == Bytes::written ? "bytes written"
                         : bytes == Bytes::lost  ? "bytes lost"
                         : bytes == Bytes::torn  ? "bytes torn"
                                                 : "bytes zeroed";
      for (std::size_t index = 0; index < count; ++index)
        what += (choice[index] ? ", kept: " : ", lost: ") + changes_[index].removed + " > " + changes_[index].added;
      look(what);
    }
  }
  return shown;
}

/// Collects the paths and bytes of a state; paths of folders end with a slash.
void PowerLossDisk::collect(int folder, const std::string& path, const std::vector<bool>& kept, Bytes bytes,
                            std::map<std::string, std::string>& files) const {
  files[path + "/"];
  auto names = nodes_[static_cast<std::size_t>(folder)].safe_names;
  for (std::size_t index = 0; index < changes_.size(); ++index) {
    const auto& change = changes_[index];
    if (change.folder != folder || !kept[index]) continue;
    if (!change.removed.empty()) names.erase(change.removed);
    if (!change.added.empty()) names[change.added] = change.node;
  }
  for (const auto& [name, child] : names) {
    const auto& node = nodes_[static_cast<std::size_t>(child)];
    if (node.is_folder) {
      collect(child, path + "/" + name, kept, bytes, files);
    } else {
      files[path + "/" + name] = left_of(node, bytes);
    }
  }
}

std::string PowerLossDisk::left_of(const Node& node, Bytes bytes) {
  const bool appended = node.last.starts_with(node.safe);
  switch (bytes) {
    case Bytes::written:
      return node.last;
    case Bytes::lost:
      return node.safe;
    case Bytes::torn:
      return appended ? node.last.substr(0, node.safe.size() + (node.last.size() - node.safe.size()) / 2)
                      : node.last.substr(0, node.last.size() / 2);
    case Bytes::zeroed:
      return node.last.size() <= node.safe.size() ? node.safe : node.safe + std::string(node.last.size() - node.safe.size(), '\0');
  }
  return {};
}

}  // namespace millrace::runtime::testing
