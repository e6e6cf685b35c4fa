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

/// How a checkpoint is written. The order makes a kill at any moment harmless:
///
///     coordinator   begin      free space, step-00000040.tmp-<epoch>/, fsync of checkpoints/
///     every writer  write      shard-00000-of-00004.safetensors, fsync, read back and compare
///     coordinator   commit     manifest.json, fsync, COMMIT, fsync, rename to step-00000040, fsync of checkpoints/; only then old ones go
///
/// A reader sees either the old checkpoints or the new one, and nothing else. This holds after a kill, after a power loss that
/// keeps or drops any change that was not yet synced, and after somebody removed the temporary folders. Named fault points:
/// checkpoint.after_begin, .after_shard, .after_manifest, .after_commit_file, .after_rename, .after_commit.

/// A tensor of the state in memory. `chunks`, if not empty, are hashes taken from live memory (copy_with_hashes). They are then
/// recorded as they are, and the data on the disk must match them. Of a weight of experts the writer may have some: experts
/// [first, first + shape[0]) of `experts`. Of any other tensor it may have a run of elements: [first, first + shape[0]) of a tensor of the
/// shape `whole`, from a multiple of hash_chunk_bytes on.
struct CheckpointTensor {
  std::string name;
  FileDType dtype = FileDType::f32;
  std::vector<std::int64_t> shape;  // of what the writer has
  std::span<const std::byte> bytes;
  std::vector<Hash128> chunks;
  std::int64_t first = 0;
  std::int64_t experts = 0;              // 0: it is no weight of experts
  std::vector<std::int64_t> whole = {};  // empty: the writer has all of it, or it is a weight of experts

  /// The number of parts that are hashed one by one.
  [[nodiscard]] std::int64_t parts() const { return experts > 0 ? shape.at(0) : 1; }
};

/// Writes one writer's tensors into the temporary folder: checks the free space (1.2 × the size), syncs, reads everything back
/// from the disk and compares. Error(storage) if anything fails; the folder is then to be discarded. Thread: one per writer;
/// writers may be different processes.
[[nodiscard]] ShardReport write_shard(const std::string& folder, int writer, int writers, std::span<const CheckpointTensor> tensors);

/// Which checkpoints are kept. The two newest are always kept.
struct Retention {
  std::uint64_t keep_last = 3;   // number of newest checkpoints; 0: keep all
  std::uint64_t keep_every = 0;  // also keep every step that this divides; 0: none
};

struct CommitResult {
  std::string folder;
  std::vector<CheckpointWarning> warnings;
};

/// The result of newest_usable().
struct FoundCheckpoint {
  std::optional<CheckpointReader> checkpoint;  // empty if nothing was ever committed
  std::vector<std::string> warnings;           // one per checkpoint that was damaged and put aside
};

/// Called before each retry while another process holds the run: waits a little, or returns false to give up.
using LockWait = std::function<bool()>;

/// The checkpoints of one run, `<run>/checkpoints/`, from the coordinator's side. A lock admits one store per run at a time, over
/// all processes of the machine. Thread: one at a time.
class CheckpointStore {
 public:
  /// Creates the run's folder and journal if needed, resolves what a killed process left undecided, and removes its temporary
  /// folders. Error(start) if another process holds the run and `wait` gives up (without `wait`: at once); Error(storage).
  explicit CheckpointStore(const std::string& run_directory, Retention retention = {}, const LockWait& wait = {});

  /// Starts an attempt; `bytes` is the size of the whole state. Returns the temporary folder for the writers. Error(storage) if
  /// less than 1.2 × the size is free, Error(checkpoint) if the step has a checkpoint already.
  [[nodiscard]] std::string begin(std::uint64_t step, std::uint64_t bytes);
  /// Commits the attempt. `reports` are those of all writers, in any order; meta.step must equal the step given to begin(). After
  /// an error the attempt is to be discarded; discard() knows whether the commit took effect nevertheless. Error(internal) for
  /// reports that do not match each other. Then deletes old checkpoints, including those that an earlier commit could not delete.
  CommitResult commit(const std::string& folder, std::span<const ShardReport> reports, const CheckpointMeta& meta);
  /// Abandons an attempt; no writer may still be writing to it. What cannot be removed now is reported in the warnings, and is
  /// removed at the next start.
  std::vector<CheckpointWarning> discard(const std::string& folder) noexcept;

  /// Verifies checkpoints from the newest on, every byte, and returns the first intact one. Damaged ones are renamed to step-…
  /// .bad and journaled with the reason. Error(checkpoint) with all reasons, those of earlier starts too, if something was committed but
  /// nothing is usable; Error(storage) if the disk cannot be read, in which case nothing is renamed.
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

}  // namespace millrace::runtime
