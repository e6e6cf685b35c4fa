#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "actors/rank/rank.hpp"

namespace millrace::actors {

/// The total time of an operation of a stage's program, by its index.
struct OperationSum {
  std::int32_t stage = 0;
  runtime::ProgramKind kind = runtime::ProgramKind::forward;
  std::int32_t index = 0;  // in the program
  std::int64_t count = 0, nanoseconds = 0;
  auto tie() { return std::tie(stage, kind, index, count, nanoseconds); }
};

/// Sums the time of every operation in a rank's training passes. Runs on the rank's worker and allocates nothing there; may be
/// read while nothing runs. It records two events per operation, which are read when a later pass needs them again, by which time the
/// device has long passed them. The time between the end of an operation and the begin of the next is time in which the device waits
/// for the host: launch gaps, which are summed separately.
class OperationClock : public runtime::OperationHook {
 public:
  /// Counts the steps from `first_step` on, counted from 0. `rank` must outlive this object.
  OperationClock(Rank& rank, std::int64_t first_step);
  [[nodiscard]] Sight sight() const override { return Sight::addresses; }
  void before(const Call& call) override;
  void after(const Call& call) override;
  /// The sums of the operations that ran.
  [[nodiscard]] std::vector<OperationSum> sums();
  /// Total over all passes, nanoseconds: the device's time between operations.
  [[nodiscard]] std::int64_t launch_gaps();

 private:
  struct Sum {
    std::int64_t count = 0, nanoseconds = 0;
  };
  using Programs = std::array<std::vector<Sum>, runtime::program_kind_count>;
  /// The events of one pass.
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
  std::int64_t launch_gaps_ = 0;
  std::vector<Pass> passes_;  // used in turn: more than can be in progress at a time
  std::size_t turn_ = 0;
  std::vector<Programs> stages_;  // by chunk
};

}  // namespace millrace::actors
