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

/// One thing that is wrong with a checkpoint.
struct CheckpointProblem {
  std::string file;
  std::string tensor;        // empty: the file itself
  std::uint64_t offset = 0;  // byte of the tensor, first of the damaged 4 MiB
  std::string what;
};
[[nodiscard]] std::string to_string(const CheckpointProblem& problem);

/// A committed checkpoint. Opening it verifies COMMIT, manifest and the headers of all shards; every chunk is verified again as it is read.
/// Any layout reads any checkpoint: tensors are found by name. Errors: Error(checkpoint), naming file, tensor and offset.
/// Thread: const functions from any number of threads.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::string& folder);

  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }
  [[nodiscard]] std::uint64_t step() const noexcept { return manifest_.meta.step; }
  [[nodiscard]] const CheckpointMeta& meta() const noexcept { return manifest_.meta; }
  [[nodiscard]] const Manifest& manifest() const noexcept { return manifest_; }
  /// The hash over (name → bytes) as the manifest has it: of what was committed, whatever the data are now.
  [[nodiscard]] Hash128 state_hash() const noexcept { return manifest_.state; }
  /// nullptr if there is none.
  [[nodiscard]] const TensorRecord* find(std::string_view name) const noexcept;
  [[nodiscard]] const TensorRecord& at(std::string_view name) const;

  /// The stored bytes of a whole tensor; the sizes must be equal.
  void read_bytes(std::string_view name, std::span<std::byte> destination) const;
  /// An F32 tensor.
  void read(std::string_view name, std::span<float> destination) const;

  /// Reads everything from the disk, not from the system's copy of it; all problems, in order of files and tensors.
  /// Error(storage) if the disk cannot be read.
  [[nodiscard]] std::vector<CheckpointProblem> verify() const;
  /// The hash over (name → bytes) of the data, every byte of which is read from the disk. Error(checkpoint) at the first tensor that is not
  /// what was committed.
  [[nodiscard]] Hash128 hash_data() const;

 private:
  void open_shards();
  void drop_cache() const;
  [[nodiscard]] const SafetensorsFile& file_of(const TensorRecord& tensor) const;
  /// Returns the hash of what it read, which is the one that was committed.
  Hash128 read_chunk(const TensorRecord& tensor, std::size_t chunk, std::span<std::byte> destination) const;

  std::string folder_;
  Manifest manifest_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
};

/// For `millrace ckpt verify`: the problems of a folder, also of one that cannot be opened. Empty: all is well.
[[nodiscard]] std::vector<CheckpointProblem> verify_checkpoint(const std::string& folder);

}  // namespace millrace::runtime
