#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "actors/rank/rank.hpp"
#include "runtime/io/hash_recorder.hpp"
#include "runtime/program/executor.hpp"

namespace millrace::actors {

/// Records a hash of the result of every operation of a training step, and of each step's weights before its first action: 24
/// bytes per tensor, for `millrace compare`. On the rank's worker. Errors: Error(storage).
class HashHook final : public runtime::OperationHook {
 public:
  HashHook(const Rank& rank, const std::string& run_directory, std::int64_t first_step);

  void before(const Call& call) override;
  void after(const Call& call) override;
  /// The step's actions are complete.
  void end_step();
  /// Called after this hook; may be null. Not owned.
  runtime::OperationHook* next = nullptr;

 private:
  void record_weights();
  const Rank& rank_;
  runtime::HashRecorder recorder_;
  std::int64_t step_ = -1;                                                                  // the current step; -1: none has begun
  std::unordered_map<const runtime::Operation*, std::vector<std::uint32_t>> result_names_;  // indexed by output
};

}  // namespace millrace::actors
