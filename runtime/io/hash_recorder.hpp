#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/file_system.hpp"
#include "runtime/io/tensor_hash.hpp"

namespace millrace::runtime {

/// Writes one rank's file of tensor hashes, one block per step. One thread at a time. Errors: Error(storage).
class HashRecorder {
 public:
  /// `after`: number of finished steps in the state that the run begins with.
  HashRecorder(const std::string& run_directory, int rank, int ranks, std::int64_t after);
  /// Writes what the current step has so far.
  ~HashRecorder();
  HashRecorder(const HashRecorder&) = delete;
  HashRecorder& operator=(const HashRecorder&) = delete;

  /// Begins a step, counted from 1, and writes the one before. Beginning the same step again discards its records.
  void begin_step(std::int64_t step);
  [[nodiscard]] std::uint32_t name(std::string_view operation, std::string_view tensor);
  /// Adds a record; `record.hash` is computed from `bytes`.
  void add(TensorHash record, std::span<const std::byte> bytes);
  void add_hash(TensorHash record, std::uint64_t hash);
  void end_step();

 private:
  File file_;
  std::int64_t step_ = 0;  // 0: no step has begun
  std::map<std::string, std::uint32_t, std::less<>> names_;
  std::vector<std::uint64_t> name_hashes_;
  std::string new_names_;
  std::vector<TensorHash> records_;
  std::uint64_t sum_ = 0;
};

/// Called before a run begins: removes recordings of earlier starts that are of no use to a run that begins after `after`
/// finished steps.
void forget_hashes(const std::string& run_directory, std::int64_t after);

}  // namespace millrace::runtime
