#include <algorithm>

#include "tests/runtime/io/checkpoint_state.hpp"

namespace millrace::runtime {
namespace {

namespace fs = std::filesystem;
using testing::is_exact;
using testing::save;
using testing::Scratch;
using testing::State;

constexpr Retention keep_two{2, 0};

/// Thrown out of the seam at the call where the power goes. No Error, so that nothing of ours reacts to it.
struct PowerLoss {};

/// What the disk owes at every moment: bytes after the last sync of their file, and renames and new files after the last sync of their
/// folder. Paths are as they are after the renames so far.
class Disk {
 public:
  explicit Disk(std::uint64_t last_call) : last_call_(last_call) {}

  FileFault see(const FileCall& call) {
    settle();
    if (call.number == last_call_) throw PowerLoss{};
    pending_ = call.operation;
    path_ = call.path;
    before_ = folders_of(path_);
    return FileFault::none;
  }

  /// Takes in what the call before did, now that it is done.
  void settle() {
    const auto parent = parent_path(path_);
    if (pending_ == FileOperation::create && !durable_.contains(path_)) new_entries_.push_back(path_);
    if (pending_ == FileOperation::create) durable_.emplace(path_, 0);
    if (pending_ == FileOperation::sync || pending_ == FileOperation::truncate) durable_[path_] = fs::file_size(path_);
    if (pending_ == FileOperation::rename) follow_rename(parent);
    if (pending_ == FileOperation::sync_directory) {
      std::erase_if(new_entries_, [&](const auto& entry) { return parent_path(entry) == path_; });
      std::erase_if(renames_, [&](const auto& rename) { return parent_path(rename.second) == path_; });
    }
    pending_.reset();
  }

  [[nodiscard]] const auto& durable() const { return durable_; }
  [[nodiscard]] const auto& new_entries() const { return new_entries_; }
  [[nodiscard]] const auto& renames() const { return renames_; }

 private:
  static std::vector<std::string> folders_of(const std::string& path) {
    return kind_of(parent_path(path)) == PathKind::directory ? list_of(parent_path(path)) : std::vector<std::string>{};
  }
  static std::vector<std::string> list_of(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().string());
    return names;
  }

  void follow_rename(const std::string& parent) {
    for (const auto& name : list_of(parent)) {
      if (std::find(before_.begin(), before_.end(), name) != before_.end()) continue;
      renames_.emplace_back(path_, name);
      std::map<std::string, std::uintmax_t> moved;
      for (const auto& [file, size] : durable_)
        moved.emplace(file.starts_with(path_ + "/") ? name + file.substr(path_.size()) : file, size);
      durable_ = moved;
    }
  }

  std::uint64_t last_call_;
  std::optional<FileOperation> pending_;
  std::string path_;
  std::vector<std::string> before_;
  std::map<std::string, std::uintmax_t> durable_;  // bytes of a file that are safe
  std::vector<std::string> new_entries_;
  std::vector<std::pair<std::string, std::string>> renames_;
};

enum class Loss : std::uint8_t { nothing, all_bytes, torn_bytes, zeroed_bytes, new_files, renames, everything };
constexpr Loss losses[] = {Loss::nothing,   Loss::all_bytes, Loss::torn_bytes, Loss::zeroed_bytes,
                           Loss::new_files, Loss::renames,   Loss::everything};

void lose_bytes(const std::string& file, std::uintmax_t safe, Loss loss) {
  if (!fs::exists(file) || fs::file_size(file) <= safe) return;
  const auto size = fs::file_size(file);
  const auto torn = std::min(size, safe + (size - safe) / 2);
  fs::resize_file(file, loss == Loss::torn_bytes ? torn : safe);
  if (loss == Loss::zeroed_bytes) fs::resize_file(file, size);
}

/// A state that the disk may be in after the power loss, made in a copy of the run.
void apply(const Disk& disk, Loss loss, const std::string& run, const std::string& copy) {
  fs::remove_all(copy);
  fs::copy(run, copy, fs::copy_options::recursive);
  const auto there = [&](const std::string& path) { return copy + path.substr(run.size()); };
  if (loss == Loss::nothing) return;
  if (loss != Loss::new_files && loss != Loss::renames)
    for (const auto& [file, safe] : disk.durable()) lose_bytes(there(file), safe, loss);
  if (loss == Loss::new_files || loss == Loss::everything)
    for (const auto& entry : disk.new_entries()) fs::remove(there(entry));
  if (loss == Loss::renames || loss == Loss::everything)
    for (auto rename = disk.renames().rbegin(); rename != disk.renames().rend(); ++rename)
      if (fs::exists(there(rename->second))) fs::rename(there(rename->second), there(rename->first));
}

std::uint64_t step_after_restart(const std::string& run) {
  CheckpointStore store(run, keep_two);
  const auto found = store.newest_usable();
  EXPECT_TRUE(found.warnings.empty()) << found.warnings.front();
  if (!found.checkpoint) return 0;
  EXPECT_TRUE(is_exact(*found.checkpoint));
  return found.checkpoint->step();
}

/// true if the power went before the end.
bool save_until(Disk& disk, const std::string& run, std::uint64_t step) {
  set_file_hook([&](const FileCall& call) { return disk.see(call); });
  bool lost = false;
  try {
    CheckpointStore store(run, keep_two);
    save(store, State(step));
  } catch (const PowerLoss&) {
    lost = true;
  }
  set_file_hook({});
  disk.settle();
  return lost;
}

class PowerLossAtEveryCall : public ::testing::TestWithParam<std::uint64_t> {};

// The parameter is how many checkpoints there are before: with two, the oldest is deleted at the end.
TEST_P(PowerLossAtEveryCall, LeavesTheOldCheckpointOrTheNew) {
  const Scratch scratch;
  const auto start = scratch / "start";
  fs::create_directories(start);
  for (std::uint64_t step = 10; step <= 10 * GetParam(); step += 10) {
    CheckpointStore store(start, keep_two);
    save(store, State(step));
  }
  const auto old = 10 * GetParam();
  const auto run = scratch / "run";
  bool lost = true;
  std::uint64_t states = 0;
  for (std::uint64_t k = 1; lost; ++k) {
    fs::remove_all(run);
    fs::copy(start, run, fs::copy_options::recursive);
    Disk disk(k);
    lost = save_until(disk, run, old + 10);
    for (const auto loss : losses) {
      apply(disk, loss, run, scratch / "copy");
      const auto now = step_after_restart(scratch / "copy");
      ASSERT_TRUE(now == old + 10 || (lost && now == old)) << "call " << k << ", loss " << static_cast<int>(loss) << ": step " << now;
      ++states;
    }
  }
  EXPECT_GT(states, 300U);
}

INSTANTIATE_TEST_SUITE_P(Before, PowerLossAtEveryCall, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace millrace::runtime
