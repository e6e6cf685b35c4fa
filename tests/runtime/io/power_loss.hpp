#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/io/fault.hpp"

namespace millrace::runtime::testing {

/// A simulated disk, for one folder, that keeps only what was synced. It observes the I/O seam while the program works on real
/// files, which represent the page cache, and tracks what is safe:
///
/// * the bytes of a file, as they were at its last sync;
/// * the names in a folder, as they were when the folder was last synced: every creation, rename and removal since then may be on the
///   disk or not, in any combination. A new folder whose name is lost is lost with its whole content.
///
/// A rename within a folder is one change. Renames between folders and links are not modelled.
class PowerLossDisk {
 public:
  /// Everything below `root` is safe now.
  explicit PowerLossDisk(std::string root);

  /// Runs `action` up to its file call number `call`, which does not happen; returns true if that call was reached, false if the
  /// action ended before. If the machine continues afterwards (another run_until), only a process was lost.
  bool run_until(std::uint64_t call, const std::function<void()>& action);
  /// Whether the last completed call changed what a power loss may leave.
  [[nodiscard]] bool changed() const noexcept { return changed_; }
  /// The number of name changes that are not safe yet.
  [[nodiscard]] std::size_t pending() const noexcept { return changes_.size(); }

  enum class States : std::uint8_t { extremes, all };
  /// Builds the states that the disk may have after a power loss now, one after another at `place`, and passes each to the
  /// callback. all: every single change kept, every single one lost, all, none, each with the unsafe bytes written, lost, torn in
  /// the middle and zeroed; extremes: nothing lost and everything lost. Returns the number of states.
  std::size_t for_each_state(States states, const std::string& place, const std::function<void(const std::string& what)>& look);

 private:
  enum class Bytes : std::uint8_t { written, lost, torn, zeroed };
  struct Node {
    bool is_folder = false;
    std::map<std::string, int> names, safe_names;  // for a folder
    std::string safe, last;                        // bytes of a file: as synced; as they were when its last name was removed
  };
  /// One change of a folder's names: a name that appears, one that disappears, or both.
  struct Change {
    int folder = 0;
    std::string added;
    int node = -1;
    std::string removed;
  };
  struct Place {
    int folder = -1;
    std::string name;
    [[nodiscard]] bool known() const { return folder >= 0; }
  };

  FileFault see(const FileCall& call, std::uint64_t last_call);
  void settle();
  int add_folder(const std::string& path);
  [[nodiscard]] Place find(const std::string& path) const;
  [[nodiscard]] int node_at(const std::string& path) const;
  void remember_bytes(const std::string& path);
  void change(int folder, std::string added, int node, std::string removed);
  void collect(int folder, const std::string& path, const std::vector<bool>& kept, Bytes bytes,
               std::map<std::string, std::string>& files) const;
  [[nodiscard]] static std::string left_of(const Node& node, Bytes bytes);
  [[nodiscard]] std::map<int, std::string> live_paths() const;

  std::string root_;
  std::vector<Node> nodes_;
  std::vector<Change> changes_;
  bool changed_ = true;
  std::optional<FileOperation> operation_;  // the current operation
  std::string path_, target_;
  bool was_there_ = false;
};

}  // namespace millrace::runtime::testing
