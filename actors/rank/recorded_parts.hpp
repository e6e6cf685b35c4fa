#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "actors/rank/rank.hpp"
#include "runtime/program/executor.hpp"

namespace millrace::actors {

/// Whose rows an expert group's rank computes in an action: those of all members, each for its own microbatch. Member s has the microbatch
/// that is (s - member) · stride after the rank's own.
struct SourceMicrobatches {
  int member = 0;
  int stride = 1;
};

/// A part of an operation's result that recordings name by itself, with a name and a microbatch that do not depend on which rank has which
/// experts: one expert's weight, or its rows of one microbatch; else the whole result.
struct RecordedPart {
  std::int64_t expert = -1;  // -1: the whole result
  std::int32_t microbatch = -1;
  std::size_t begin = 0, bytes = 0;  // of the result's bytes
};

/// Divides results into such parts. Must see every operation of the actions in question, because it keeps the tables of offsets that
/// routers compute.
class RecordedParts {
 public:
  explicit RecordedParts(SourceMicrobatches sources = {}) : sources_(sources) {}

  /// Keeps the operation's results that are tables. Called after it, before parts_of().
  void note(const runtime::OperationHook::Call& call, const runtime::Action& action);
  /// The parts of result `output`.
  [[nodiscard]] std::vector<RecordedPart> parts_of(const runtime::OperationHook::Call& call, std::size_t output,
                                                   const runtime::Action& action) const;
  /// Forgets the tables of a step.
  void clear() { tables_.clear(); }

 private:
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // stage, microbatch, value
  [[nodiscard]] const std::vector<std::int32_t>* table_of(runtime::ValueId table, const runtime::Action& action) const;
  [[nodiscard]] std::int32_t microbatch_of(const runtime::Action& action, std::int64_t source) const;

  SourceMicrobatches sources_;
  std::map<Key, std::vector<std::int32_t>> tables_;
};

/// The parts of a weight: by expert, if it has experts.
[[nodiscard]] std::vector<RecordedPart> parts_of(const runtime::StoredParameter& tensor);

}  // namespace millrace::actors
