#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/rank/rank.hpp"
#include "actors/rank/recorded_parts.hpp"
#include "runtime/io/hash_recorder.hpp"
#include "runtime/program/executor.hpp"

namespace millrace::actors {

/// Records a hash of the result of every operation of a training step, and of each step's weights before its first action: 24
/// bytes per tensor, for `millrace compare`. Weights of experts and rows in their order are recorded by expert (recorded_parts.hpp). On the
/// rank's worker. Errors: Error(storage).
class HashHook final : public runtime::OperationHook {
 public:
  HashHook(const Rank& rank, const std::string& run_directory, std::int64_t first_step, SourceMicrobatches sources = {});

  void before(const Call& call) override;
  void after(const Call& call) override;
  /// The step's actions are complete.
  void end_step();
  /// Called after this hook; may be null. Not owned.
  runtime::OperationHook* next = nullptr;

 private:
  void record_weights(runtime::StageId stage);
  const Rank& rank_;
  runtime::HashRecorder recorder_;
  /// The name of a part of one of the operation's results.
  [[nodiscard]] std::uint32_t name_of(const Call& call, std::size_t output, std::int64_t expert);

  RecordedParts parts_;
  std::int64_t step_ = -1;                               // the current step; -1: none has begun
  std::vector<runtime::StageId> recorded_;               // whose weights the step has
  using NameKey = std::pair<std::size_t, std::int64_t>;  // output and expert
  std::unordered_map<const runtime::Operation*, std::map<NameKey, std::uint32_t>> result_names_;
};

}  // namespace millrace::actors
