#pragma once

#include <string>

#include "actors/rank/rank.hpp"
#include "runtime/program/executor.hpp"

namespace millrace::actors {

/// Checks the results of every operation of a rank. At the first value that is not finite it writes the operation's inputs to
/// `folder` (empty: nowhere) and throws Error(numerics) with step, action, samples, operation and operands. On the rank's worker.
class NanHook final : public runtime::OperationHook {
 public:
  NanHook(const Rank& rank, std::string folder) : rank_(rank), folder_(std::move(folder)) {}
  void after(const Call& call) override;

 private:
  [[nodiscard]] std::string save(const Call& call) const;  // returns its part of the message
  const Rank& rank_;
  const std::string folder_;
};

/// Injects a NaN where a test's rules ask for one (runtime/io/fault.hpp), before `next` is called.
class FaultHook final : public runtime::OperationHook {
 public:
  explicit FaultHook(runtime::OperationHook* next) : next_(next) {}
  [[nodiscard]] Sight sight() const override { return Sight::copies_that_go_back; }
  void before(const Call& call) override;
  void after(const Call& call) override;

 private:
  runtime::OperationHook* next_;  // may be null
};

}  // namespace millrace::actors
