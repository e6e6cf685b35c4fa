#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "actors/rank/rank.hpp"

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
/// nothing runs. Two looks at the clock an operation; on a GPU two marks in its queue, read when a later pass needs them again, by when the
/// device has long passed them. What lies there between the end of an operation and the beginning of the next is the device waiting for
/// the host: launch gaps, which are added up by themselves.
class OperationClock : public runtime::OperationHook {
 public:
  /// Of the steps from `first_step` on, counted from 0. `rank` outlives it.
  OperationClock(Rank& rank, std::int64_t first_step);
  [[nodiscard]] Sight sight() const override { return Sight::addresses; }
  void before(const Call& call) override;
  void after(const Call& call) override;
  /// Those that ran.
  [[nodiscard]] std::vector<OperationSum> sums();
  /// Of all passes together, nanoseconds: the device's time between operations.
  [[nodiscard]] std::int64_t launch_gaps();

 private:
  struct Sum {
    std::int64_t count = 0, nanoseconds = 0;
  };
  using Programs = std::array<std::vector<Sum>, runtime::kProgramKinds>;
  /// The marks of one pass on a GPU.
  struct Pass {
    std::vector<kernels::Event> begins, ends;
    std::size_t used = 0;
    Sum* sums = nullptr;  // of the program
  };
  void collect(Pass& pass);
  void collect_all();
  [[nodiscard]] Sum* sums_of(const Call& call);
  Rank& rank_;
  const std::int64_t first_step_;
  std::int64_t begin_ = 0, launch_gaps_ = 0;
  std::vector<Pass> passes_;  // take turns: more than may be under way at a time
  std::size_t turn_ = 0;
  std::vector<Programs> stages_;  // by chunk
};

}  // namespace millrace::actors
