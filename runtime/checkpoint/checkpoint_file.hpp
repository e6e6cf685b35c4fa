#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint_reader.hpp"
#include "runtime/checkpoint/checkpoint_records.hpp"
#include "runtime/checkpoint/checkpoint_warning.hpp"
#include "runtime/checkpoint/run_journal.hpp"

namespace millrace::runtime {

/// How a checkpoint comes to be, in the order that makes a kill at any moment harmless:
///
///     coordinator   begin      free space, step-00000040.tmp-<epoch>/, fsync of checkpoints/
///     every writer  write      shard-00000-of-00004.safetensors, fsync, read back and compare
///     coordinator   commit     manifest.json, fsync, COMMIT, fsync, rename to step-00000040, fsync of checkpoints/; only then old ones go
///
/// A reader sees the old checkpoints or the new one, never a third thing: after a kill, after a power loss at which every change that was
/// not yet synced may be on the disk or not, and after somebody removed the temporary folders. Named fault points: checkpoint.after_begin,
/// .after_shard, .after_manifest, .after_commit_file, .after_rename, .after_commit.

/// A tensor of the state in memory. `chunks`, if not empty, are hashes taken from live memory (copy_with_hashes); then they are what is
/// recorded, and what is on the disk must agree with them.
struct CheckpointTensor {
  std::string name;
  FileDType dtype = FileDType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  std::vector<Hash128> chunks;
};

/// Writes one writer's tensors into the temporary folder. Checks the free space (1.2 × the size), syncs, reads everything back from the
/// disk and compares. Error(storage) if anything fails; the folder is then to be discarded. Thread: one per writer; writers may be
/// different processes.
[[nodiscard]] ShardReport write_shard(const std::string& folder, int writer, int writers, std::span<const CheckpointTensor> tensors);

/// What may be deleted. The two newest never are.
struct Retention {
  std::uint64_t keep_last = 3;   // 0: keep all
  std::uint64_t keep_every = 0;  // also every step that this divides; 0: none
};

struct CommitResult {
  std::string folder;
  std::vector<CheckpointWarning> warnings;
};

/// What newest_usable found on its way.
struct FoundCheckpoint {
  std::optional<CheckpointReader> checkpoint;  // empty: nothing was ever committed
  std::vector<std::string> warnings;           // one for each that was damaged and put aside
};

/// Called while another process has the run, before each further try to take it over: waits a little, or returns false to give up.
using LockWait = std::function<bool()>;

/// The checkpoints of one run, `<run>/checkpoints/`: the coordinator's side. One store per run at a time, over all processes of the machine
/// (a lock). Thread: one at a time.
class CheckpointStore {
 public:
  /// Makes the run's folder and journal if needed, decides what a killed process left undecided, removes its temporary folders.
  /// Error(start) if another process has the run and `wait` gives up (without one: at once); Error(storage).
  explicit CheckpointStore(const std::string& run_directory, Retention retention = {}, const LockWait& wait = {});

  /// Starts an attempt; `bytes` is the size of the whole state. Returns the temporary folder for the writers. Error(storage) if 1.2 × the
  /// size is not free, Error(checkpoint) if the step is there already.
  [[nodiscard]] std::string begin(std::uint64_t step, std::uint64_t bytes);
  /// Makes the attempt count. `reports` are of all writers, in any order. meta.step is that of begin. On an error the attempt is to be
  /// discarded; discard knows whether it came too late. Error(internal) for reports that do not fit together. Afterwards old checkpoints
  /// go, and what an earlier commit could not delete.
  CommitResult commit(const std::string& folder, std::span<const ShardReport> reports, const CheckpointMeta& meta);
  /// Gives an attempt up; no writer may be at work in it any more. What cannot be removed now is in the warnings, and is removed at the
  /// next start.
  std::vector<CheckpointWarning> discard(const std::string& folder) noexcept;

  /// Verifies checkpoints from the newest on, every byte, and returns the first good one. Damaged ones are renamed to step-… .bad and
  /// journaled with the reason. Error(checkpoint) with all reasons if something was committed but nothing is usable; Error(storage) if the
  /// disk cannot be read, and then nothing is renamed.
  [[nodiscard]] FoundCheckpoint newest_usable();

  [[nodiscard]] RunJournal& journal() noexcept { return journal_; }
  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }

 private:
  void decide_undecided(bool folder_was_there);
  void remove_leftovers();
  [[nodiscard]] bool ever_committed() const;
  void quarantine(const std::string& name, const std::string& reason);
  void retire(std::vector<CheckpointWarning>& warnings);
  [[nodiscard]] Manifest assemble(std::span<const ShardReport> reports, const CheckpointMeta& meta, std::uint64_t epoch) const;
  [[nodiscard]] std::string temporary_name(std::uint64_t step, std::uint64_t epoch) const;

  std::string run_directory_;
  std::string folder_;
  Retention retention_;
  File lock_;
  RunJournal journal_;
};

/// A line of `millrace ckpt ls`.
struct ListedCheckpoint {
  std::uint64_t step = 0;
  std::string folder;
  std::uint64_t bytes = 0;
  std::string problem;  // empty: committed, and its manifest and headers are whole
};

/// Committed checkpoints, oldest first, without reading their data and without changing anything; takes no lock.
[[nodiscard]] std::vector<ListedCheckpoint> list_checkpoints(const std::string& run_directory);

}  // namespace millrace::runtime
