#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/file_dtype.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::runtime {

/// What a checkpoint says of itself: the manifest, the reports that it is made of, and the commit. Version of all three.
inline constexpr std::uint64_t checkpoint_schema = 1;

/// One tensor of the state: "model.norm.weight", "adamw.m/model.norm.weight".
struct TensorRecord {
  std::string name;
  FileDType dtype = FileDType::f32;
  std::vector<std::int64_t> shape;
  std::string shard;            // file name in the checkpoint's folder
  std::vector<Hash128> chunks;  // of each 4 MiB
};

/// One file of a checkpoint.
struct ShardRecord {
  std::string file;
  std::uint64_t bytes = 0;
  Hash128 header;  // of all bytes before the data
};

/// What a writing rank tells the coordinator.
struct ShardReport {
  int writer = 0;  // 0 … writers − 1
  int writers = 1;
  ShardRecord shard;
  std::vector<TensorRecord> tensors;

  /// Text for a message between processes; from_text(text()) is the same. Error(internal) from a text that is no report.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static ShardReport from_text(std::string_view text);
};

/// What the coordinator adds to the tensors.
struct CheckpointMeta {
  std::uint64_t step = 0;                       // completed steps
  std::uint64_t consumed_samples = 0;           // the data cursor
  std::map<std::string, std::string> identity;  // keys of the run that may not change on resume, and their values
  std::map<std::string, std::string> notes;     // all else: layout, build, libraries, detector state
};

struct Manifest {
  CheckpointMeta meta;
  std::uint64_t epoch = 0;  // counts the attempts of the run to write a checkpoint; the number of its begin in the journal
  std::string run;          // the journal's id
  Hash128 state;            // StateHash of the tensors
  std::vector<ShardRecord> shards;
  std::vector<TensorRecord> tensors;  // by name

  [[nodiscard]] std::string text() const;
  /// Error(checkpoint) naming `path` for anything that text() would not have written.
  [[nodiscard]] static Manifest from_text(std::string_view text, const std::string& path);
  [[nodiscard]] Hash128 state_hash() const;
};

/// The last file written: with it the checkpoint counts, without it there is none.
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
