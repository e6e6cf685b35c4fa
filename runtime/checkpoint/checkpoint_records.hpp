#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/file_dtype.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::runtime {

/// The records of a checkpoint: the manifest, the shard reports that it is made from, and the commit. This is the version of the commit
/// and of a manifest without weights of experts, whose text must stay as it is.
inline constexpr std::uint64_t checkpoint_schema = 1;
/// The version of a manifest with weights of experts, which several ranks may have written: it says where each expert is, and hashes
/// expert by expert. Those of schema 1 have them as tensors like any other, with chunks that do not begin with the experts.
inline constexpr std::uint64_t sliced_checkpoint_schema = 2;
/// The version of a manifest with other tensors that several ranks have written (mesh.shard): slices of those are runs of elements.
inline constexpr std::uint64_t divided_checkpoint_schema = 3;

/// Units [first, first + count) of a tensor, which lie in one file: experts, or elements of any other tensor. A slice begins where a chunk
/// does.
struct TensorSlice {
  std::string shard;  // file name in the checkpoint's folder
  std::int64_t first = 0, count = 0;
};

/// One tensor of the state: "model.norm.weight", "adamw.m/model.norm.weight".
struct TensorRecord {
  std::string name;
  FileDType dtype = FileDType::f32;
  std::vector<std::int64_t> shape;  // of the whole tensor, whoever has which part of it
  std::string shard;                // file name in the checkpoint's folder; empty for a tensor in slices
  std::vector<Hash128> chunks;      // hash of each 4 MiB chunk; of a weight of experts those of each expert, one expert after another
  std::int64_t experts = 0;         // the number of experts along the first axis; 0: it is no weight of experts
  std::vector<TensorSlice> slices;  // of a weight of experts or a tensor that several ranks wrote, ascending: every unit in one of them

  /// The number of parts that are hashed one by one: the experts, or one.
  [[nodiscard]] std::int64_t parts() const noexcept { return experts > 0 ? experts : 1; }
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] bool sliced() const noexcept { return !slices.empty(); }
  /// What slices consist of, and the bytes of each.
  [[nodiscard]] std::int64_t units() const;
  [[nodiscard]] std::uint64_t unit_bytes() const { return units() == 0 ? 0 : bytes() / static_cast<std::uint64_t>(units()); }
  /// The shape of a slice of `count` units, in its file.
  [[nodiscard]] std::vector<std::int64_t> shape_of(std::int64_t count) const;
};

/// One file of a checkpoint.
struct ShardRecord {
  std::string file;
  std::uint64_t bytes = 0;
  Hash128 header;  // hash of all bytes before the data
};

/// A writing rank's report to the coordinator.
struct ShardReport {
  int writer = 0;  // 0 … writers − 1
  int writers = 1;
  ShardRecord shard;
  std::vector<TensorRecord> tensors;  // of tensors in slices what the writer has: one slice, and its chunks

  /// The report as text, for a message between processes; from_text(text()) gives the same report. Error(internal) for malformed
  /// text.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static ShardReport from_text(std::string_view text);
};

/// What the coordinator adds to the tensors.
struct CheckpointMeta {
  std::uint64_t step = 0;                       // number of completed steps
  std::uint64_t consumed_samples = 0;           // the position in the data
  std::map<std::string, std::string> identity;  // keys of the run that must not change on resume, with their values
  std::map<std::string, std::string> notes;     // everything else: layout, build, libraries, detector state
};

struct Manifest {
  CheckpointMeta meta;
  // number of the attempt to write a checkpoint, counted over the run; the same number as in its begin record of the journal
  std::uint64_t epoch = 0;
  std::string run;  // the run's id from the journal
  Hash128 state;    // StateHash of the tensors
  std::vector<ShardRecord> shards;
  std::vector<TensorRecord> tensors;  // sorted by name

  [[nodiscard]] std::string text() const;
  /// Error(checkpoint) with `path` for anything that text() would not have written.
  [[nodiscard]] static Manifest from_text(std::string_view text, const std::string& path);
  [[nodiscard]] Hash128 state_hash() const;
};

/// The tensors of all writers, sorted by name: slices are joined. Error(internal), which begins with `where` and names the tensor, for
/// units that no writer or several have, and for slices of different tensors. Other tensors that several writers have stay in the list
/// several times.
[[nodiscard]] std::vector<TensorRecord> joined(std::vector<TensorRecord> tensors, const std::string& where);

/// The file that is written last: the checkpoint counts once it exists.
struct Commit {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t manifest_bytes = 0;
  Hash128 manifest;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] static Commit from_text(std::string_view text, const std::string& path);
};

inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* commit_name = "COMMIT";

/// "step-00000040".
[[nodiscard]] std::string checkpoint_name(std::uint64_t step);
/// "shard-00000-of-00004.safetensors".
[[nodiscard]] std::string shard_name(int writer, int writers);
/// "<run>/checkpoints".
[[nodiscard]] std::string checkpoints_folder(const std::string& run_directory);

}  // namespace millrace::runtime
