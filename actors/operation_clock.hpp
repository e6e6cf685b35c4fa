#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "actors/rank.hpp"

namespace millrace::actors {

/// What an operation of a stage's program took in all, by its place.
struct OperationSum {
  std::int32_t stage = 0;
  runtime::ProgramKind kind = runtime::ProgramKind::forward;
  std::int32_t index = 0;  // in the program
  std::int64_t count = 0, nanoseconds = 0;
  auto tie() { return std::tie(stage, kind, index, count, nanoseconds); }
};

/// Adds up the time of every operation of a rank's training passes. Runs on the rank's worker and allocates nothing there; read when
/// nothing runs. Two looks at the clock an operation.
class OperationClock : public runtime::OperationHook {
 public:
  /// Of the steps from `first_step` on, counted from 0. `rank` outlives it.
  OperationClock(const Rank& rank, std::int64_t first_step);
  void before(const Call& call) override;
  void after(const Call& call) override;
  /// Those that ran.
  [[nodiscard]] std::vector<OperationSum> sums() const;

 private:
  struct Sum {
    std::int64_t count = 0, nanoseconds = 0;
  };
  using Programs = std::array<std::vector<Sum>, runtime::kProgramKinds>;
  const Rank& rank_;
  const std::int64_t first_step_;
  std::int64_t begin_ = 0;
  std::vector<Programs> stages_;  // by chunk
};

}  // namespace millrace::actors
