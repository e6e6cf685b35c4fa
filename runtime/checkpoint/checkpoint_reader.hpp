#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint_records.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::runtime {

/// One defect of a checkpoint.
struct CheckpointProblem {
  std::string file;
  std::string tensor;        // empty if the file itself is meant
  std::uint64_t offset = 0;  // byte offset in the tensor at which the damaged 4 MiB chunk begins
  std::string what;
};
[[nodiscard]] std::string to_string(const CheckpointProblem& problem);

/// Parts [first, first + count) of a tensor of `whole` equal parts: some of the experts of a layer, some of its elements.
struct TensorPart {
  std::int64_t first = 0, count = 1, whole = 1;
};

/// A committed checkpoint. Opening it verifies COMMIT, the manifest and the headers of all shards; every chunk is verified again
/// as it is read. Any layout can read any checkpoint, since tensors are found by name. Errors: Error(checkpoint) with file,
/// tensor and offset. Thread: const functions from any number of threads.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::string& folder);

  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }
  [[nodiscard]] std::uint64_t step() const noexcept { return manifest_.meta.step; }
  [[nodiscard]] const CheckpointMeta& meta() const noexcept { return manifest_.meta; }
  [[nodiscard]] const Manifest& manifest() const noexcept { return manifest_; }
  /// The hash over (name → bytes) recorded in the manifest: of what was committed, whatever the data are now.
  [[nodiscard]] Hash128 state_hash() const noexcept { return manifest_.state; }
  /// The record of a tensor; nullptr if there is none.
  [[nodiscard]] const TensorRecord* find(std::string_view name) const noexcept;
  [[nodiscard]] const TensorRecord& at(std::string_view name) const;

  /// Reads the stored bytes of a tensor, or of a part of it, whichever files they are in; destination.size() must equal their size. Every
  /// chunk that has some of them is read and verified.
  void read_bytes(std::string_view name, std::span<std::byte> destination, const TensorPart& part = {}) const;
  /// Reads an F32 tensor, or a part of it.
  void read(std::string_view name, std::span<float> destination, const TensorPart& part = {}) const;

  /// Reads everything from the disk, bypassing the page cache, and returns all problems in order of files and tensors.
  /// Error(storage) if the disk cannot be read.
  [[nodiscard]] std::vector<CheckpointProblem> verify() const;
  /// The hash over (name → bytes) of the data, with every byte read from the disk. Error(checkpoint) at the first tensor that
  /// differs from what was committed.
  [[nodiscard]] Hash128 hash_data() const;

 private:
  void open_shards();
  void drop_cache() const;
  /// Reads and verifies one chunk, which lies at `range` of the whole tensor; returns its hash, which equals the committed one.
  Hash128 read_chunk(const TensorRecord& tensor, std::size_t chunk, const ChunkRange& range, std::span<std::byte> destination) const;

  std::string folder_;
  Manifest manifest_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
};

/// For `millrace ckpt verify`: the problems of a checkpoint folder, which may be one that cannot be opened. Empty if there are
/// none.
[[nodiscard]] std::vector<CheckpointProblem> verify_checkpoint(const std::string& folder);

}  // namespace millrace::runtime
