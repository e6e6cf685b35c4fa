#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/io/file_system.hpp"
#include "runtime/io/tensor_hash.hpp"

namespace millrace::runtime {

/// Identifies a tensor independently of the layout. A gradient has the name of its operand, an accumulator that of the weight.
struct TensorPlace {
  TensorMoment moment = TensorMoment::weight;
  std::int32_t microbatch = -1;
  std::string tensor;
  friend auto operator<=>(const TensorPlace&, const TensorPlace&) = default;
};

/// What a run recorded about it.
struct RecordedHash {
  TensorPlace place;
  std::string operation;  // the operation that wrote it, which in some layouts is a fused one; empty: a weight
  TensorHash record;
};

/// A run's recording (tensor_hash.hpp) as a whole. If a killed run was resumed and did a step twice, the newer start's records
/// are used. Steps that are torn or lack a rank are left out. Thread: one. Errors: Error(data) for a folder without a recording
/// or a file that is not one, Error(storage).
class HashRecording {
 public:
  explicit HashRecording(const std::string& run_directory);

  /// The steps that all ranks have, ascending, each with its sum.
  [[nodiscard]] const std::map<std::int64_t, std::uint64_t>& steps() const noexcept { return sums_; }
  /// The number of tensors recorded in a step.
  [[nodiscard]] std::uint64_t count(std::int64_t step) const;
  /// A step's records in the order in which one microbatch meets them: weights first; then, by microbatch, forward through the
  /// stages and backward.
  [[nodiscard]] std::vector<RecordedHash> read(std::int64_t step) const;

 private:
  struct Block {
    std::size_t file;
    std::uint64_t records_at;
    std::uint64_t records;
    std::uint64_t sum;
  };
  struct RankFile {
    File file;
    std::int64_t after = 0;
    int ranks = 0;
    std::vector<std::string> names;
  };
  void scan(std::size_t index);

  std::vector<RankFile> files_;
  std::map<std::int64_t, std::map<std::int64_t, std::vector<Block>>> blocks_;  // by step and start; one block per rank
  std::map<std::int64_t, std::uint64_t> sums_;
};

}  // namespace millrace::runtime
